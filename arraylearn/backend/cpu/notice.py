"""One line in the log when compiling takes long: what happens, and how to do it beforehand."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from numba.core import event

__all__ = ["CompileNotice"]

_log = logging.getLogger("arraylearn.compile")
_SECONDS = 1.0
_TEXT = (
    "compiling for this machine, which takes some seconds for each learner and happens once; "
    "`arraylearn compile` does it beforehand for all of them"
)


class CompileNotice(event.Listener):
    """Log once per process that functions are being compiled, as soon as that has taken a second in all.

    Numba reports compilations alone: code that is loaded from disk costs nothing here. It compiles under a
    lock, one function at a time with those it calls inside, so that a counter of open reports is enough.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._left = seconds  # until the notice is due
        self._depth = 0
        self._began = 0.0
        self._timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """Start the clock with the outermost function."""
        self._depth += 1
        if self._depth == 1 and self._left > 0:
            self._began = time.perf_counter()
            self._timer = threading.Timer(self._left, _log.warning, [_TEXT])
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the clock, and keep what is left of the time."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left -= time.perf_counter() - self._began
