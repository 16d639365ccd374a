"""Run kernels of CUDA C on the arrays, and on the stream, of CuPy or torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from arraylearn._typing import Dtype
from arraylearn.backend.dispatch import get_compiled, native
from arraylearn.backend.errors import BackendFallbackWarning, warn_caller
from arraylearn.backend.namespace import Place, is_on_gpu

__all__ = ["CudaKernel", "Launch", "c_type", "cuda_launcher"]


class CudaKernel(NamedTuple):
    """A kernel of CUDA C; it is compiled when it is first launched."""

    source: str
    name: str  # of the function in the source
    n_threads: int  # of a block


# Launches a kernel with a number of blocks (along x, or x and y) and arguments: arrays, and NumPy scalars.
# Arrays that are not contiguous are copied, so those that the kernel writes to must be contiguous.
Launch = Callable[[CudaKernel, int | tuple[int, int], Sequence[Any]], None]

_C_TYPES = {
    "uint8": "unsigned char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "float32": "float",
    "float64": "double",
}
# Library and device -> whether kernels run there; tried once.
_can_launch: dict[tuple[str, str], bool] = {}
_PROBE = CudaKernel(
    'extern "C" __global__ void arraylearn_probe(int* seen) { *seen = 1; }', "arraylearn_probe", 1
)


def c_type(dtype: Dtype) -> str:
    """Return the type in CUDA C of a dtype of any library."""
    return _C_TYPES[str(dtype).rpartition(".")[2]]


def cuda_launcher(place: Place) -> Launch | None:
    """Return the function that launches kernels at a place; None where array programs compute."""
    if not is_on_gpu(place) or get_compiled() == "never":
        return None
    key = place.library, str(place.device)
    if key not in _can_launch:
        _can_launch[key] = _try_probe(place)
    return native(place.xp, "launch") if _can_launch[key] else None


def _try_probe(place: Place) -> bool:
    """Whether a small kernel can be compiled and launched; warn, with the reason, where it cannot."""
    launch = native(place.xp, "launch")
    if launch is None:
        return False
    try:
        launch(_PROBE, 1, (place.xp.zeros(1, dtype=place.xp.int32, device=place.device),))
    except Exception as error:
        warn_caller(
            f"Kernels of CUDA C cannot be run on {place.device}: {error} Array programs compute the same "
            "results, several times slower. To go on without this warning: arraylearn.set_compiled('never').",
            BackendFallbackWarning,
        )
        return False
    return True
