"""The spinner: after a while, on a terminal, one at a time."""

from __future__ import annotations

import functools
import io
import time

import pytest
import rich.console

from arraylearn.backend.spinner import Spinner, only_one, spinning
from arraylearn.progress import show_progress


@pytest.fixture
def screen(monkeypatch):
    """Return what a terminal would show."""
    file = io.StringIO()
    terminal = functools.partial(rich.console.Console, file=file, force_terminal=True, width=80)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: terminal())
    return file


def show(spinner):
    """Let the time of a spinner come now."""
    spinner._timer.cancel()
    spinner._show()


def test_a_long_block_shows_what_is_done(screen):
    with spinning("reading rows.csv", after=0.0):
        for _ in range(1000):
            if "reading rows.csv" in screen.getvalue():
                break
            time.sleep(0.01)
    assert "reading rows.csv" in screen.getvalue()


def test_a_block_that_is_over_shows_nothing(screen):
    with spinning("fitting", after=60.0):
        pass
    spinner = Spinner("fitting", 60.0)
    spinner.stop()
    show(spinner)
    assert not screen.getvalue()


def test_a_second_spinner_waits_for_the_first_to_end(screen):
    first, second, third = (Spinner(name, 60.0) for name in ("first", "second", "third"))
    show(first)
    show(second)
    first.stop()
    show(third)
    second.stop()
    third.stop()
    assert "first" in screen.getvalue()
    assert "second" not in screen.getvalue()
    assert "third" in screen.getvalue()


def test_no_spinner_beside_a_bar(screen):
    spinner = Spinner("compiling", 60.0)
    with show_progress("growing", 2, True) as advance:
        show(spinner)
        advance()
    with only_one():
        show(spinner)
    spinner.stop()
    assert "growing" in screen.getvalue()
    assert "compiling" not in screen.getvalue()


def test_nothing_is_shown_where_there_is_no_terminal(capsys):
    spinner = Spinner("fitting", 60.0)
    show(spinner)
    spinner.stop()
    assert capsys.readouterr() == ("", "")
