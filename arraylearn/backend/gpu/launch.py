"""Run kernels of CUDA C on arrays of a library that can compile them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from arraylearn._typing import Namespace
from arraylearn.backend.dispatch import native

__all__ = ["CudaKernel", "Launch", "cuda_launcher"]


class CudaKernel(NamedTuple):
    """A kernel of CUDA C; it is compiled when it is first launched."""

    source: str
    name: str  # of the function in the source
    n_threads: int  # of a block


# Launches a kernel with a number of blocks and its arguments: arrays, and NumPy scalars. Arrays that are not
# contiguous are copied, so those that the kernel writes to must be contiguous.
Launch = Callable[[CudaKernel, int, Sequence[Any]], None]


def cuda_launcher(xp: Namespace) -> Launch | None:
    """Return the function that launches kernels on arrays of this library; None for all but CuPy."""
    return native(xp, "launch")
