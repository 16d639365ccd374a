"""Where ours runs: a backend, and on NumPy with or without compiled bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from arraylearn.backend.dispatch import CompiledMode, is_numba_installed, use_compiled
from arraylearn.backend.namespace import HOST, Place, synchronize
from arraylearn.backend.selector import resolve

__all__ = ["Stage", "default_backend", "find_stage"]

Run = Callable[[], Any]


class Stage(NamedTuple):
    """A place, and when primitives on NumPy are compiled there."""

    place: Place
    mode: CompiledMode

    def bring(self, make: Callable[[Place], Run]) -> Run:
        """Return the call to time: it runs on this stage and returns when the device has finished."""
        with use_compiled(self.mode):
            run = make(self.place)

        def work() -> Any:
            with use_compiled(self.mode):
                result = run()
            synchronize(self.place)
            return result

        return work


def find_stage(name: str) -> Stage:
    """Return the stage of a backend; "numpy" is NumPy alone, "compiled" is NumPy with Numba."""
    if name == "compiled":
        with use_compiled("always"):  # raises where Numba is missing
            return Stage(HOST, "always")
    return Stage(resolve(name), "never" if name == "numpy" else "auto")


def default_backend() -> str:
    """Return the backend that is used when none is chosen: NumPy, compiled if Numba is installed."""
    return "compiled" if is_numba_installed() else "numpy"
