"""Errors of the command line: one line on stderr and an exit status.

0: done, 1: ``selftest`` found a difference, 2: an error, 130: interrupted, 141: broken pipe.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

__all__ = ["BriefParser", "run_and_report"]

_ERROR, _INTERRUPTED, _NO_READER = 2, 130, 141
_LONGEST = 1_000  # characters of a line
_DEBUG = "run with --debug for the traceback"


class BriefParser(argparse.ArgumentParser):
    """A parser whose errors are one line; it and each of its commands take ``--debug``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # suppressed, so that a command without the option does not undo the one before it
        self.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
        )

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the arguments and exit."""
        self.exit(_ERROR, f"{_shorten(message)}; see {self.prog} --help\n")


def run_and_report(run: Callable[[], int], *, is_debug: bool) -> int:
    """Return the exit status of a command; its errors and warnings become lines on stderr."""
    try:
        with contextlib.nullcontext() if is_debug else _warnings_as_lines():
            status = run()
            _flush()
            return status
    except BrokenPipeError:
        _abandon_stdout()
        return _NO_READER
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # rich exits at once, with a status of its own
            return _NO_READER
        raise
    except KeyboardInterrupt:
        print(_shorten("interrupted"), file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        if is_debug:
            traceback.print_exc()
        print(_shorten(_describe(error)), file=sys.stderr)
        return _ERROR


def _shorten(message: str) -> str:
    text = " ".join(message.split())
    return f"arraylearn: {text if len(text) <= _LONGEST else f'{text[:_LONGEST]} ...'}"


def _describe(error: Exception) -> str:
    """Return the message of an error that is meant for users, and for others also the type."""
    kind = type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename!r}: {error.strerror}."
    if isinstance(error, MemoryError) and not str(error):
        return "out of memory."
    if isinstance(error, ValueError | OSError | ImportError | MemoryError) and str(error):
        return str(error)
    return f"unexpected {kind}: {error} ({_DEBUG})"


# ---- warnings


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning as one line, without the place in the source that caused it."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(_shorten(f"warning: {message}"), file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


# ---- stdout


def _flush() -> None:
    """Flush stdout now: an error at the interpreter's exit could not be reported in one line."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        _abandon_stdout()
        raise


def _abandon_stdout() -> None:
    """Discard what stdout still holds, so that the interpreter does not try to write it at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stand-in without a descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
