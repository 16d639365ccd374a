"""Compiles and loads noop_guard.cpp.

Without a device guard, torch refuses to index, copy or read a tensor whose device is "cuda", real or fake.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from tests.backends.cache import cache_directory

SOURCE = Path(__file__).with_name("noop_guard.cpp")


def unavailable() -> str | None:
    """Why the fake device cannot run here, or None."""
    if torch.version.cuda is not None:
        return "torch_fake_cuda needs a CPU build of torch"
    if not _library().exists() and shutil.which("g++") is None:
        return "torch_fake_cuda compiles a few lines of C++ on first use: install g++"
    if importlib.util.find_spec("expecttest") is None:
        return "torch's table of CUDA dtypes needs it: pip install expecttest"
    return None


@functools.cache
def load() -> None:
    if reason := unavailable():
        raise RuntimeError(reason)
    library = _library()
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile(library)
    ctypes.CDLL(str(library))


def _library() -> Path:
    digest = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode())
    name = f"noop_guard-torch{torch.__version__}-{digest.hexdigest()[:12]}.so"
    return cache_directory("torch_fake_cuda", "TORCH_FAKE_CUDA_CACHE") / name


def _compile(library: Path) -> None:
    torch_root = Path(torch.__file__).parent
    abi = int(torch.compiled_with_cxx11_abi())
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        output = Path(scratch, "guard.so")
        command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
        command += [f"-I{torch_root / 'include'}", SOURCE, "-o", output, f"-L{torch_root / 'lib'}", "-lc10"]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(
                f"{SOURCE.name} does not fit torch {torch.__version__}:\n{result.stderr[-3000:]}"
            )
        output.replace(library)  # atomic, so two processes may both do this
