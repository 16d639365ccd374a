"""Where arrays live: the namespace and device of an input, and the functions that move data."""

from __future__ import annotations

import importlib
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, cast

import array_api_compat
import numpy as np
from array_api_compat import numpy as numpy_namespace

from arraylearn._typing import Array, Device, Dtype, HostArray, Namespace

__all__ = [
    "HOST",
    "Place",
    "accumulator_dtype",
    "as_float",
    "bring",
    "copy_together",
    "from_host",
    "is_array",
    "is_on_gpu",
    "is_on_host",
    "library_name",
    "load_namespace",
    "locate",
    "move",
    "native_float",
    "read_flags",
    "read_together",
    "same_place",
    "supports_float64",
    "synchronize",
    "to_host",
]


class Place(NamedTuple):
    """An array library and one of its devices."""

    xp: Namespace
    device: Device

    @property
    def library(self) -> str:
        """The library's name: ``"numpy"``, ``"torch"``, ``"cupy"`` or ``"array_api_strict"``."""
        return library_name(self.xp)


HOST = Place(numpy_namespace, "cpu")


@cache
def library_name(xp: Namespace) -> str:
    """Name the array library behind a namespace."""
    return cast(str, xp.__name__).removeprefix("array_api_compat.").split(".")[0]


def is_array(x: object) -> bool:
    """Whether `x` is an array of a supported library (found through its type, nothing is imported)."""
    return bool(array_api_compat.is_array_api_obj(x))


@cache
def load_namespace(library: str) -> Namespace:
    """Import the namespace of torch or CuPy; torch gets bodies of ours for what it does in many launches."""
    namespace = importlib.import_module(f"array_api_compat.{library}")
    if library != "torch":
        return namespace
    ours = ModuleType(namespace.__name__, namespace.__doc__)
    ours.__dict__.update(vars(namespace))
    ours.__dict__.update(importlib.import_module("arraylearn.backend.native.torch").STANDARD)
    return ours


def locate(x: object) -> Place:
    """Find the place of an input; lists, data frames and scalars live on the host."""
    if isinstance(x, np.ndarray) or not is_array(x):
        return HOST
    namespace = array_api_compat.array_namespace(x)
    if library_name(namespace) == "torch":
        namespace = load_namespace("torch")
    return Place(namespace, array_api_compat.device(x))


def same_place(a: Place, b: Place) -> bool:
    """Whether two places are the same library and device."""
    return a.xp is b.xp and a.device == b.device


def is_on_host(place: Place) -> bool:
    """Whether the host itself computes there, so that reading a number in a loop costs nothing."""
    return "cpu" in str(place.device).lower()


def is_on_gpu(place: Place) -> bool:
    """Whether a CUDA device computes there, so that reading a number makes the host sync.

    Not the opposite of `is_on_host`: array-api-strict has devices that are neither.
    """
    return "cuda" in str(place.device).lower()


def move(x: Array, place: Place) -> Array:
    """Bring an array to `place`: itself if it is there, otherwise by one transfer."""
    here = locate(x)
    if same_place(here, place):
        return x
    if here.xp is place.xp:
        return array_api_compat.to_device(x, place.device)
    if {here.library, place.library} == {"cupy", "torch"} and is_on_gpu(here) and is_on_gpu(place):
        with suppress(BufferError, RuntimeError, TypeError):  # where DLPack cannot hand over the memory
            return array_api_compat.to_device(place.xp.from_dlpack(x), place.device)
    return from_host(to_host(x), place)


def to_host(x: Array) -> HostArray:
    """Return the numbers as a NumPy array: on the CPU the same memory, on a GPU a copy and a sync."""
    if isinstance(x, np.ndarray):
        return x
    library = locate(x).library
    if library == "torch":
        x = x.detach().cpu()
        if x.is_floating_point() and not hasattr(np, str(x.dtype).removeprefix("torch.")):
            x = x.float()  # bfloat16 and the like
        return cast("HostArray", x.numpy())
    if library == "cupy":
        return cast("HostArray", x.get())
    if library == "array_api_strict":
        host = type(array_api_compat.device(x))("CPU_DEVICE")
        return np.asarray(array_api_compat.to_device(x, host))
    return np.asarray(x)


def from_host(x: Any, place: Place, dtype: Dtype | None = None) -> Array:
    """Copy host data to `place`; `dtype` is a dtype of the place's namespace (default: keep)."""
    x = np.asarray(x)
    if place.library == "numpy":
        return x if dtype is None else x.astype(dtype, copy=False)
    if not x.flags.c_contiguous or not x.flags.writeable:
        x = np.array(x, order="C")  # torch refuses negative strides and warns about read-only memory
    if x.dtype == np.float64 and dtype is None and not supports_float64(place):
        dtype = place.xp.float32
    if dtype is not None and place.library != "cupy":
        # convert on the host: a device without float64 could not even receive the data first
        x = x.astype(str(dtype).rpartition(".")[2], copy=False)
    return place.xp.asarray(x, device=place.device, dtype=dtype)


def supports_float64(place: Place) -> bool:
    """Whether the place computes in float64 (Apple's GPUs and some test devices do not)."""
    if place.library in ("numpy", "cupy"):
        return True
    if place.library == "torch":
        return str(getattr(place.device, "type", place.device)) != "mps"
    info = place.xp.__array_namespace_info__()
    return "float64" in info.dtypes(device=place.device)


def accumulator_dtype(place: Place) -> Dtype:
    """Float dtype in which sums are taken: float64 wherever the device has it."""
    return place.xp.float64 if supports_float64(place) else place.xp.float32


def native_float(x: Array, place: Place) -> Dtype:
    """Float dtype that follows the input: its own if it is a float, else the accumulator's."""
    if is_array(x) and place.xp.isdtype(x.dtype, "real floating"):
        if x.dtype == place.xp.float64 or x.dtype == place.xp.float32:
            return x.dtype
        return place.xp.float32
    return accumulator_dtype(place)


def bring(x: Any, place: Place, dtype: Dtype | None = None) -> Array:
    """Turn an argument (an array of any library, a list, a scalar) into an array at `place`."""
    if not is_array(x):
        return from_host(x, place, dtype)
    x = move(x, place)
    return x if dtype is None else place.xp.astype(x, dtype, copy=False)


def as_float(x: Any, place: Place) -> Array:
    """Bring numbers to `place` as floats: float32 and float64 stay, others become the widest float there."""
    x = bring(x, place)
    return place.xp.astype(x, native_float(x, place), copy=False)


def read_flags(place: Place, *flags: Array) -> list[bool]:
    """Read 0-d booleans on the host, all in one copy."""
    if not flags:
        return []
    return list(map(bool, to_host(place.xp.stack(list(flags)))))


def read_together(place: Place, *arrays: Array) -> list[HostArray]:
    """Copy arrays to the host, where NumPy holds them; on a GPU this is one sync.

    Beside floats, integers and booleans travel as numbers of the accumulator's dtype: exact below 2**53, or
    2**24 on a device without float64. Alone they travel as int64.
    """
    if place.library == "numpy":
        return list(arrays)
    has_floats = any(place.xp.isdtype(array.dtype, "real floating") for array in arrays)
    dtype = accumulator_dtype(place) if has_floats else place.xp.int64
    flat = [place.xp.reshape(place.xp.astype(array, dtype), (-1,)) for array in arrays]
    parts = np.split(to_host(place.xp.concat(flat)), np.cumsum([part.shape[0] for part in flat])[:-1])
    return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]


def copy_together(place: Place, *arrays: Array) -> list[HostArray]:
    """Copy arrays of one place to the host in their own dtypes, as `read_together` does."""
    names = [str(array.dtype).rpartition(".")[2] for array in arrays]
    numbers = read_together(place, *arrays)
    return [part.astype(name, copy=False) for part, name in zip(numbers, names, strict=True)]


def synchronize(place: Place) -> None:
    """Sync: wait until the device has finished, for timings."""
    library = place.xp
    if place.library == "torch" and place.device.type == "cuda":
        library.cuda.synchronize(place.device)
    elif place.library == "cupy":
        library.cuda.get_current_stream().synchronize()
