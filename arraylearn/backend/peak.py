"""The most memory that a piece of work held at once, on the host or on a device."""

from __future__ import annotations

import ctypes
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arraylearn.backend.namespace import HOST, Place, is_on_gpu

__all__ = ["Peak", "measure_peak"]

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


@dataclass
class Peak:
    """What `measure_peak` found."""

    n_bytes: int = 0  # beyond what was held at the start


@contextmanager
def measure_peak(place: Place = HOST, *, traced: bool = False) -> Iterator[Peak]:
    """Measure the most memory held at `place` inside the block, beyond what was held before.

    On the host this is resident memory of the process where Linux reports it, so that work of any library
    counts, and otherwise (or if `traced`) what Python and NumPy allocate, which is exact but leaves out
    other libraries. On a GPU it is the memory of the library's pool.
    """
    peak = Peak()
    if is_on_gpu(place):
        yield from _on_device(place, peak)
    elif _STATUS.exists() and _RESET.exists() and not traced:
        yield from _resident(peak)
    else:
        yield from _traced(peak)


def _resident(peak: Peak) -> Iterator[Peak]:
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # what was freed goes back to the system: taking it again must show
    _RESET.write_text("5")  # the high-water mark begins anew
    before = _status("VmRSS")
    yield peak
    peak.n_bytes = max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    entry = next(one for one in _STATUS.read_text().splitlines() if one.startswith(f"{name}:"))
    return int(entry.split()[1]) * 1024


def _traced(peak: Peak) -> Iterator[Peak]:
    tracemalloc.start()
    try:
        yield peak
        peak.n_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _on_device(place: Place, peak: Peak) -> Iterator[Peak]:
    library = place.xp  # beyond the standard, hence under another name
    if place.library == "cupy":
        pool = library.get_default_memory_pool()
        pool.free_all_blocks()
        before = pool.total_bytes()
        yield peak
        peak.n_bytes = pool.total_bytes() - before  # a pool only grows
    else:
        cuda = library.cuda
        cuda.reset_peak_memory_stats(place.device)
        before = cuda.memory_allocated(place.device)
        yield peak
        peak.n_bytes = cuda.max_memory_allocated(place.device) - before
