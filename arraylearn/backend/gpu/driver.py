"""NVIDIA's compiler (NVRTC) and driver, for a library that does not offer them to us: torch.

CuPy compiles and launches by itself (`arraylearn.backend.native.cupy`).
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from arraylearn.backend.errors import BackendUnavailableError

__all__ = ["OPTIONS", "CompiledKernel", "compile_cuda", "launch_kernel", "load_kernel"]

# A handle of the driver.
CompiledKernel = ctypes.c_void_p

# A product and a sum are rounded one after the other, as on a CPU, so that the bits are the same.
OPTIONS = ("--std=c++17", "--fmad=false")
# Names of the compiler, the newest first, for the dynamic linker and below the wheels' package "nvidia".
_NVRTC_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll")
_DRIVER_NAMES = ("libcuda.so.1", "nvcuda.dll")
_C_NUMBERS = {
    "bool": ctypes.c_bool,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def compile_cuda(source: str, name: str, architecture: str, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """Compile CUDA C for an architecture such as "sm_90"; return the machine code, and the log."""
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    given = [f"--gpu-architecture={architecture}", *OPTIONS, *options]
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None)
    try:
        flags = (ctypes.c_char_p * len(given))(*map(str.encode, given))
        status = nvrtc.nvrtcCompileProgram(program, len(given), flags)
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        text = log.rstrip(b"\0\n").decode(errors="replace")
        if status:
            raise BackendUnavailableError(
                f"NVRTC cannot compile the kernel {name} for {architecture}: {text}"
            )
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), text
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(get_size: Any, get: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    get_size(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    get(program, buffer)
    return buffer.raw


def load_kernel(image: bytes, name: str) -> CompiledKernel:
    """Load machine code on the current device and return one of its kernels."""
    module, kernel = ctypes.c_void_p(), CompiledKernel()
    _check(_driver().cuModuleLoadData(ctypes.byref(module), image), f"the kernel {name} cannot be loaded")
    status = _driver().cuModuleGetFunction(ctypes.byref(kernel), module, name.encode())
    _check(status, f"there is no kernel {name} in its module")
    return kernel


def launch_kernel(
    kernel: CompiledKernel, n_blocks: tuple[int, int], n_threads: int, stream: int, arguments: Sequence[Any]
) -> None:
    """Launch a kernel; arguments are addresses (Python integers) and NumPy scalars."""
    values: list[Any] = [
        ctypes.c_void_p(value) if isinstance(value, int) else _C_NUMBERS[value.dtype.name](value.item())
        for value in arguments
    ]
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    shape = (*n_blocks, 1, n_threads, 1, 1)
    status = _driver().cuLaunchKernel(kernel, *shape, 0, ctypes.c_void_p(stream), pointers, None)
    _check(status, "a kernel cannot be launched")


def _check(status: int, what: str) -> None:
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise BackendUnavailableError(f"{what}: {(text.value or b'unknown error').decode()} (CUDA {status})")


@cache
def _driver() -> ctypes.CDLL:
    return _load(_DRIVER_NAMES, "the CUDA driver")


@cache
def _nvrtc() -> ctypes.CDLL:
    return _load((*_NVRTC_NAMES, *map(str, _in_wheels())), "NVRTC, the compiler for CUDA C")


def _in_wheels() -> Iterator[Path]:
    """Yield the compilers in the wheels that torch depends on, which the dynamic linker need not know."""
    package = importlib.util.find_spec("nvidia")
    for folder in () if package is None else package.submodule_search_locations or ():
        for name in _NVRTC_NAMES:
            yield from sorted(Path(folder).glob(f"*/*/{name}"))


def _load(names: Sequence[str], what: str) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise BackendUnavailableError(f"{what} was not found; looked for {', '.join(names)}.")
