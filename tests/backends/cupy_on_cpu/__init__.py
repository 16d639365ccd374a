"""Runs the real CuPy wheel on the CPU, without a GPU.  Import this module before cupy.

    from tests.backends import cupy_on_cpu
    import cupy

`python -m tests.backends.cupy_on_cpu` builds what is missing and checks it.

Environment variables:
    CUPY_ON_CPU_CACHE     where builds and compiled kernels are kept (default: the user's cache directory)
    CUPY_ON_CPU_SDIST     a downloaded cupy-<version>.tar.gz, for machines without PyPI
    CUPY_ON_CPU_NVRTC=1   NVIDIA's compiler must accept every kernel too (pip install nvidia-cuda-nvrtc)
    CUPY_ON_CPU_CXXFLAGS  more g++ flags for kernels, for example "-mfma -ffp-contract=fast"
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from tests.backends.cuda_on_cpu import driver

from .build import BuildError
from .loader import load

__all__ = ["BuildError", "HostSync", "counters", "no_sync"]

_runtime = load()
_no_sync_depth = 0


class HostSync(RuntimeError):
    """The host waited for the device where it must not."""


def counters() -> dict[str, int]:
    """Totals since the start of the process; every "d2h" and every "sync" makes the host wait on a GPU."""
    return {
        "d2h": _read(_runtime.cpu_device_to_host_copies),
        "h2d": _read(_runtime.cpu_host_to_device_copies),
        "sync": _read(_runtime.cpu_synchronisations),
        "launches": driver.count_launches(),
    }


def _read(counter: Any) -> int:
    counter.restype = ctypes.c_long
    return counter()


@contextlib.contextmanager
def no_sync() -> Iterator[None]:
    """Inside, a copy to the host or a synchronisation raises HostSync where it happens."""
    from cupy.cuda.runtime import CUDARuntimeError

    global _no_sync_depth
    before = _waits()
    _no_sync_depth += 1
    _runtime.cpu_forbid_sync(1)
    try:
        yield
    except CUDARuntimeError as error:
        if _waits() == before:
            raise
        raise HostSync(str(error)) from error
    finally:
        _no_sync_depth -= 1
        _runtime.cpu_forbid_sync(int(_no_sync_depth > 0))
    if _waits() != before:  # the program caught the error, but it did wait
        raise HostSync("host synchronisation inside no_sync()")


def _waits() -> int:
    totals = counters()
    return totals["d2h"] + totals["sync"]
