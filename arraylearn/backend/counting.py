"""Count what a GPU feels: operations launched on the device, and times the host waited for it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from arraylearn.backend.namespace import Place

__all__ = ["Counts", "count_operations"]


@dataclass
class Counts:
    """What happened inside `count_operations`."""

    launches: int = 0
    syncs: int = 0


@contextmanager
def count_operations(place: Place) -> Iterator[Counts | None]:
    """Count the operations at `place` inside the block; None where the library offers no way to.

    On torch every operation that is not a view counts as a launch. CuPy has no hook for launches: an
    allocation from its memory pool, which nearly every operation makes once, stands for one.
    """
    if place.library == "torch":
        counts = Counts()
        with _torch_mode(counts):
            yield counts
    elif place.library == "cupy":
        counts = Counts()
        with _cupy_hooks(counts):
            yield counts
    else:
        yield None


def _torch_mode(counts: Counts) -> Any:
    dispatch = importlib.import_module("torch.utils._python_dispatch")
    aten = importlib.import_module("torch").ops.aten
    waiting = {
        aten._local_scalar_dense,
        aten._linalg_check_errors,
        aten._unique2,
        aten.bincount,
        aten.equal,
        aten.is_nonzero,
        aten.masked_select,
        aten.nonzero,
        aten.unique_consecutive,
        aten.unique_dim,
    }

    class Counter(dispatch.TorchDispatchMode):  # type: ignore[misc,name-defined]
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if not operation.is_view:
                counts.launches += 1
            to_cpu = operation.overloadpacket is aten._to_copy and str(kwargs.get("device")) == "cpu"
            if to_cpu or operation.overloadpacket in waiting:
                counts.syncs += 1
            return operation(*args, **kwargs)

    return Counter()


@contextmanager
def _cupy_hooks(counts: Counts) -> Iterator[None]:
    cupy = importlib.import_module("cupy")

    class Counter(cupy.cuda.MemoryHook):  # type: ignore[misc,name-defined]
        name = "arraylearn counter"

        def malloc_preprocess(self, **event: Any) -> None:
            counts.launches += 1

    fetch = cupy.ndarray.get

    def counting_fetch(array: Any, *args: Any, **kwargs: Any) -> Any:
        counts.syncs += 1
        return fetch(array, *args, **kwargs)

    cupy.ndarray.get = counting_fetch  # float(x), bool(x), masks and copies all pass through here
    try:
        with Counter():
            yield
    finally:
        cupy.ndarray.get = fetch
