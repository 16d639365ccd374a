"""A spinner on the standard error while something takes long: on terminals alone, never beside a bar."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Spinner", "only_one", "spinning"]

_lock = threading.RLock()
_is_taken = False  # whether a bar or a spinner is on the screen


class Spinner:
    """Shows a text and the time that passes, from `after` seconds on, until `stop`."""

    def __init__(self, text: str, after: float) -> None:
        self._text, self._is_over = text, False
        self._shown: Progress | None = None
        self._timer = threading.Timer(after, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        global _is_taken
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        with _lock:
            if self._is_over or _is_taken or not console.is_terminal:
                return
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            shown = Progress(*columns, console=console, transient=True)
            shown.add_task(self._text, total=None)
            shown.start()
            self._shown, _is_taken = shown, True

    def stop(self) -> None:
        """Remove the spinner, or do not show it."""
        global _is_taken
        self._timer.cancel()
        with _lock:
            self._is_over = True
            if self._shown is not None:
                self._shown.stop()
                self._shown, _is_taken = None, False


@contextmanager
def spinning(text: str, after: float = 2.0) -> Iterator[None]:
    """Show a spinner while the block runs, once it has taken `after` seconds."""
    spinner = Spinner(text, after)
    try:
        yield
    finally:
        spinner.stop()


@contextmanager
def only_one() -> Iterator[None]:
    """Show no spinner inside, where a bar is shown."""
    global _is_taken
    with _lock:
        before, _is_taken = _is_taken, True
    try:
        yield
    finally:
        with _lock:
            _is_taken = before
