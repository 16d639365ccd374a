"""The conditions of a run: machine and load, the threads of every program, and where ours computes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from arraylearn._version import __version__
from arraylearn.backend.dispatch import CompiledMode, is_numba_installed, use_compiled
from arraylearn.backend.namespace import HOST, Place, synchronize
from arraylearn.backend.selector import resolve
from arraylearn.backend.threads import available_cores, same_threads
from arraylearn.bench.peers import pin_peers

__all__ = [
    "Stage",
    "default_backend",
    "describe_machine",
    "find_stage",
    "is_quiet",
    "load_average",
    "quiet_text",
    "threads",
]


_TASKS = Path("/proc/self/task")
Run = Callable[[], Any]
_VERSIONS = (
    "numpy scipy scikit-learn numba torch cupy-cuda12x cupy-cuda13x scikit-learn-intelex lightgbm xgboost "
    "wittgenstein"
)


def load_average() -> float | None:
    """Return the mean number of running processes over the last minute; None if the system does not know."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def is_quiet(before: float | None) -> bool | None:
    """Whether the load before the run was low enough for its times to be trusted; None if it is unknown."""
    return None if before is None else before < 0.3


def quiet_text(is_known: bool | None) -> str:
    """Return the words for what `is_quiet` found."""
    return {True: "quiet", False: "NOT quiet", None: "not known to be quiet"}[is_known]


def describe_machine() -> dict[str, Any]:
    """Return processor, system and versions, which are written beside every result."""
    versions = {"python": platform.python_version(), "arraylearn": __version__}
    for name in _VERSIONS.split():
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": available_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    if about.exists():
        for entry in about.read_text().splitlines():
            if entry.startswith("model name"):
                return entry.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Set our pool, BLAS, OpenMP, torch and the peers to `n` threads; on Linux bind them to `n` cores."""
    if n < 1 or n > available_cores():
        raise ValueError(
            f"`threads` must be from 1 to {available_cores()}, the cores this process may use; got {n}. "
            "With more threads than cores the programs slow one another down."
        )
    pin_peers(n)
    with same_threads(n), _on_cores(n):
        yield


@contextmanager
def _on_cores(n: int) -> Iterator[None]:
    """Bind every thread of this process, also those of other libraries' pools, to its first `n` cores."""
    if sys.platform != "linux" or not _TASKS.exists():
        yield
        return
    allowed = os.sched_getaffinity(0)
    _bind(set(sorted(allowed)[:n]))
    try:
        yield
    finally:
        _bind(allowed)


def _bind(cores: set[int]) -> None:
    for task in _TASKS.iterdir():
        with suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), cores)


# ---- where ours computes: a backend, and on NumPy with or without compiled bodies


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
