"""What a piece of work costs: launches, bytes moved, arithmetic, syncs, and the most memory held at once."""

from __future__ import annotations

import ctypes
import importlib
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arraylearn.backend.namespace import HOST, Place, is_on_gpu

__all__ = ["OperationCounts", "Peak", "count_operations", "measure_peak"]

# operations of torch that sync, and those that multiply matrices
_SYNCING = (
    "_local_scalar_dense _linalg_check_errors _linalg_eigh _linalg_svd _unique2 bincount equal is_nonzero "
    "masked_select nonzero unique_consecutive unique_dim"
)
_PRODUCTS = "mm bmm addmm baddbmm mv dot"
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


@dataclass
class OperationCounts:
    """What happened inside `count_operations`."""

    launches: int = 0
    syncs: int = 0
    n_bytes: int = 0  # read and written by the operations; 0 where the library does not count them
    n_flops: int = 0  # one per element of the largest operand; 2 per term of a matrix product


@contextmanager
def count_operations(place: Place) -> Iterator[OperationCounts | None]:
    """Count the operations at `place` inside the block; None where the library offers no way to.

    On torch every operation that is not a view counts as a launch, and its tensors as bytes moved. CuPy has
    no hook for launches: an allocation from its memory pool, which nearly every operation makes once, stands
    for one.
    """
    counts = OperationCounts()
    if place.library not in ("torch", "cupy"):
        yield None
        return
    with _torch_mode(counts) if place.library == "torch" else _cupy_hooks(counts):
        yield counts


def _torch_mode(counts: OperationCounts) -> Any:
    torch = importlib.import_module("torch")
    dispatch = importlib.import_module("torch.utils._python_dispatch")
    leaves = importlib.import_module("torch.utils._pytree").tree_leaves
    aten = torch.ops.aten
    syncing = {getattr(aten, name) for name in _SYNCING.split()}
    products = {getattr(aten, name) for name in _PRODUCTS.split()}

    def tensors(tree: Any) -> list[Any]:
        return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]

    class OperationCounter(dispatch.TorchDispatchMode):  # type: ignore[misc,name-defined]
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            result = operation(*args, **kwargs)
            packet = operation.overloadpacket
            if packet in syncing or (packet is aten._to_copy and str(kwargs.get("device")) == "cpu"):
                counts.syncs += 1
            if not operation.is_view:
                counts.launches += 1
                inputs, outputs = tensors((args, kwargs)), tensors(result)
                counts.n_bytes += sum(x.numel() * x.element_size() for x in (*inputs, *outputs))
                if packet in products:  # two per term of each inner product
                    work = 2 * inputs[-2].shape[-1] * sum(x.numel() for x in outputs)
                else:
                    work = max((x.numel() for x in (*inputs, *outputs)), default=0)
                counts.n_flops += work
            return result

    return OperationCounter()


@contextmanager
def _cupy_hooks(counts: OperationCounts) -> Iterator[None]:
    cupy = importlib.import_module("cupy")

    class AllocationCounter(cupy.cuda.MemoryHook):  # type: ignore[misc,name-defined]
        name = "arraylearn counter"

        def malloc_preprocess(self, **event: Any) -> None:
            counts.launches += 1
            counts.n_bytes += 2 * event["mem_size"]  # written once, and read by the next

    fetch = cupy.ndarray.get

    def counting_fetch(array: Any, *args: Any, **kwargs: Any) -> Any:
        counts.syncs += 1
        return fetch(array, *args, **kwargs)

    cupy.ndarray.get = counting_fetch  # float(x), bool(x), masks and copies all pass through here
    try:
        with AllocationCounter():
            yield
    finally:
        cupy.ndarray.get = fetch


# ---- memory


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
        libc.malloc_trim(0)  # freed memory goes back to the system, so that using it again counts
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
