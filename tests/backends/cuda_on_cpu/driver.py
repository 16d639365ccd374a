"""Builds and loads the libcuda.so.1 that runs kernels on the CPU: one for the whole process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.backends.cache import cache_directory
from tests.backends.cuda_on_cpu.compiler import NATIVE

__all__ = ["count_launches", "load", "shuffled", "unavailable"]

SOURCES = [NATIVE / "cuda_driver.cpp", NATIVE / "launch_context.h"]


def unavailable() -> str | None:
    """Why kernels cannot run here, or None."""
    return "kernels are compiled by g++: install it" if shutil.which("g++") is None else None


@functools.cache
def load() -> ctypes.CDLL:
    """The driver; whoever asks the dynamic linker for libcuda.so.1 from here on gets it, too."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:12]
    library = cache_directory("cuda_on_cpu", "CUDA_ON_CPU_CACHE") / f"driver-{digest}" / "libcuda.so.1"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _build(library)
    return ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def _build(library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        output = Path(scratch, "driver.so")
        flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-w", "-Wl,-soname,libcuda.so.1"]
        result = subprocess.run(
            ["g++", *flags, SOURCES[0], "-o", output, "-ldl"], capture_output=True, text=True
        )
        if result.returncode:
            raise RuntimeError(f"g++ cannot build the driver:\n{result.stderr[-4000:]}")
        os.replace(output, library)  # atomic: another process may build it, too


def count_launches() -> int:
    """Kernels launched since the start of the process."""
    counter = load().cpu_launches
    counter.restype = ctypes.c_long
    return counter()


@contextlib.contextmanager
def shuffled(seed: int) -> Iterator[None]:
    """Inside, the blocks of every kernel, and the threads of a block, run in a random order.

    Threads are stopped at barriers alone: between two of them, a thread runs through before the next one
    begins. Results must not depend on the order.
    """
    if seed == 0:
        raise ValueError("seed must not be 0")
    load().cpu_shuffle(seed)
    try:
        yield
    finally:
        load().cpu_shuffle(0)
