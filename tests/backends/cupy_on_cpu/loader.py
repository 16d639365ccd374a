"""Puts the stand-ins in place, then imports CuPy on top of them."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from tests.backends.cuda_on_cpu import compiler, driver

from . import build


def load() -> ctypes.CDLL:
    """Loads everything; returns the library that counts copies and waits."""
    if "cupy" in sys.modules or "cupy_backends" in sys.modules:
        raise ImportError("import cupy_on_cpu before cupy (and before anything that imports cupy)")
    directory = build.ensure_built()
    description = json.loads((directory / "build.json").read_text())
    _configure_cupy(directory)
    driver.load()
    _load_libraries(directory, description["libraries"])
    sys.meta_path.insert(0, _StandInFinder(directory))

    import cupy
    from cupy.cuda import compiler as cupy_compiler

    from . import kernels

    cuda_version = description["cuda_version"]
    include_dirs = build.cuda_include_dirs(cuda_version // 1000)
    cupy_compiler._NVRTCProgram = kernels.program_class(cuda_version, include_dirs)
    cupy_compiler._get_nvrtc_version = lambda: (cuda_version // 1000, cuda_version % 1000 // 10)
    cupy.cuda.set_allocator(None)  # no memory pool: recycled memory would not be poisoned
    _refuse_random_numbers(cupy.random)
    return ctypes.CDLL(str(directory / "runtime.so"))


def _configure_cupy(directory: Path) -> None:
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB and cuTENSOR contain GPU code that cannot be replaced
    # a cached kernel has passed the checks that were on when it was compiled: each setting has its own cache
    settings = repr([os.environ.get(name) for name in ("CUPY_ON_CPU_NVRTC", "CUPY_ON_CPU_CXXFLAGS")])
    sources = [Path(compiler.__file__), *sorted(compiler.NATIVE.iterdir())]
    digest = hashlib.sha256(settings.encode() + b"".join(source.read_bytes() for source in sources))
    os.environ["CUPY_CACHE_DIR"] = str(directory / f"kernels-{digest.hexdigest()[:8]}")


def _load_libraries(directory: Path, names: list[str]) -> None:
    import numpy  # noqa: F401  (its OpenBLAS must be in memory, because libcublas refers to it by name)

    # once a library is loaded, the dynamic linker finds it by its name wherever it came from
    for name in names:
        ctypes.CDLL(str(directory / name), ctypes.RTLD_GLOBAL)


class _StandInFinder:
    """Answers two module names with our files, before Python looks into the CuPy wheel."""

    def __init__(self, directory: Path) -> None:
        self.runtime = str(directory / "runtime.so")
        self.thrust = str(Path(__file__).with_name("thrust.py"))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "cupy_backends.cuda.api.runtime":
            loader = importlib.machinery.ExtensionFileLoader(name, self.runtime)
            return importlib.util.spec_from_file_location(name, self.runtime, loader=loader)
        if name == "cupy.cuda.thrust":
            return importlib.util.spec_from_file_location(name, self.thrust)
        return None


def _refuse_random_numbers(module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        if callable(value) and not name.startswith("_"):
            setattr(module, name, _refusal(f"cupy.random.{name}"))


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{name} is not emulated: draw random numbers with numpy and transfer them")

    return refuse
