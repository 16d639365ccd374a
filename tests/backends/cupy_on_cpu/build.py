"""Builds the libraries that stand in for CUDA: once per version of Python, CuPy and NumPy, into the cache.

This module must not import CuPy: the build has to exist before CuPy is loaded.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.backends.cache import cache_directory

NATIVE = Path(__file__).parent / "native"
CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x")

# The CuPy modules that are linked to shared CUDA libraries.
LINKED_MODULES = ("cublas", "cusolver", "cusparse", "curand")

# What a function that is not emulated returns: that library's "not supported" or "internal error".
STUB_STATUS = {"cublas": 15, "cusolver": 7, "cusparse": 10, "curand": 999}
CUDA_NOT_SUPPORTED = 801

# Where the PyPI wheels put the headers, below the namespace package "nvidia".
WHEEL_INCLUDES = {
    13: ["cu13/include"],
    12: ["cuda_runtime/include", "cuda_nvcc/include"],
}
WHEEL_NAMES = {
    13: "nvidia-cuda-runtime nvidia-cuda-crt",
    12: "nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12",
}
NEEDED_HEADERS = ("cuda_runtime.h", "crt/host_defines.h")


# What CuPy 14.2 is built with; older ones fail with messages that do not say why.
MIN_VERSIONS = {"cython": (3, 2), "setuptools": (77, 0)}


class BuildError(RuntimeError):
    """The emulator cannot be built; the message says what is missing."""


def ensure_built() -> Path:
    """Returns the directory of the finished build, after making it if necessary."""
    target = cache_root() / build_key()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(target.parent / f"{target.name}.lock"):
        if not target.exists():  # another process may have finished it while this one waited
            _build_into(target)
    return target


def cache_root() -> Path:
    return cache_directory("cupy_on_cpu", "CUPY_ON_CPU_CACHE")


def build_key() -> str:
    package, version = installed_cupy()
    digest = hashlib.sha256(_openblas().name.encode())
    for source in [*sorted(NATIVE.iterdir()), Path(__file__)]:
        digest.update(source.read_bytes())
    return f"{sysconfig.get_config_var('SOABI')}-{package}-{version}-{digest.hexdigest()[:12]}"


def installed_cupy() -> tuple[str, str]:
    for package in CUPY_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return package, importlib.metadata.version(package)
    raise BuildError("CuPy is not installed: pip install cupy-cuda13x (or cupy-cuda12x)")


def cuda_include_dirs(major: int) -> list[Path]:
    """The CUDA headers: from the PyPI wheels, or else from an installed toolkit."""
    wheel_dirs = _wheel_include_dirs(major)
    if _has_headers(wheel_dirs):
        return wheel_dirs
    for toolkit in _toolkits():
        if _has_headers([toolkit / "include"]):
            return [toolkit / "include"]
    raise BuildError(f"CUDA {major} headers not found: pip install {WHEEL_NAMES[major]} (or set CUDA_HOME)")


def _wheel_include_dirs(major: int) -> list[Path]:
    package = importlib.util.find_spec("nvidia")
    if package is None:
        return []
    roots = [Path(location) for location in package.submodule_search_locations]
    return [
        root / include for root in roots for include in WHEEL_INCLUDES[major] if (root / include).exists()
    ]


def _toolkits() -> list[Path]:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    toolkits = [Path(home) for home in homes if home]
    nvcc = shutil.which("nvcc")
    if nvcc:
        toolkits.append(Path(nvcc).resolve().parent.parent)
    return toolkits


def _has_headers(directories: list[Path]) -> bool:
    return all(any((directory / header).exists() for directory in directories) for header in NEEDED_HEADERS)


@contextlib.contextmanager
def _exclusive(lock_path: Path) -> Iterator[None]:
    with open(lock_path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed, also after a crash
        yield


def _build_into(target: Path) -> None:
    print("cupy_on_cpu: building, once (less than a minute)", file=sys.stderr)
    _require_tools()
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        scratch = Path(directory)
        result = scratch / "result"
        result.mkdir()
        cuda_version = _cuda_version_of_cupy()
        includes = cuda_include_dirs(cuda_version // 1000)
        _build_runtime(scratch, result, cuda_version, includes)
        libraries = _build_math_libraries(scratch, result, cuda_version)
        description = {"cuda_version": cuda_version, "libraries": libraries}
        (result / "build.json").write_text(json.dumps(description, indent=1))
        result.rename(target)  # atomic: the target is either absent or complete


def _require_tools() -> None:
    for tool in ("g++", "nm", "objdump"):
        if shutil.which(tool) is None:
            raise BuildError(f"{tool} is not on the PATH: install g++ and binutils (Debian: apt install g++)")
    for package, oldest in MIN_VERSIONS.items():
        if _installed_version(package) < oldest:
            raise BuildError(
                f"{package} is missing or too old: pip install -U 'cython>=3.2,<3.3' 'setuptools>=77'"
            )


def _installed_version(package: str) -> tuple[int, ...]:
    """(3, 2) for 3.2.4, () when not installed."""
    try:
        return tuple(int(number) for number in importlib.metadata.version(package).split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return ()


def _cuda_version_of_cupy() -> int:
    """The CUDA version of the wheel, for example 13020; asked in a process that may load CuPy."""
    program = "from cupy_backends.cuda.api import driver; print(driver.get_build_version())"
    return int(_run([sys.executable, "-c", program]))


def _run(command: Iterable[str | Path], **options: Any) -> str:
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if result.returncode:
        shown = " ".join(str(word) for word in command)
        raise BuildError(f"command failed: {shown}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
    return result.stdout


def _compile_object(
    source: Path, output: Path, includes: Iterable[str | Path] = (), flags: Iterable[str] = ()
) -> None:
    include_flags = [f"-I{directory}" for directory in includes]
    _run(["g++", "-w", "-fPIC", "-c", *flags, *include_flags, source, "-o", output])


# ---- CuPy's runtime module, linked with our CUDA runtime


def _build_runtime(scratch: Path, result: Path, cuda_version: int, includes: list[Path]) -> None:
    source = _runtime_source(scratch)
    runtime_cpp = _cythonize(source, cuda_version)
    python_include = sysconfig.get_paths()["include"]
    # -O0: these wrappers do nothing that takes time, and the file has forty thousand lines
    _compile_object(runtime_cpp, scratch / "runtime.o", [python_include, *includes, NATIVE], ["-O0"])
    _compile_object(NATIVE / "cuda_runtime.cpp", scratch / "cuda_runtime.o", includes, ["-O1"])
    wanted = {name for name in _symbols(["-u"], scratch / "runtime.o") if name.startswith("cuda")}
    missing = wanted - _symbols(["--defined-only"], scratch / "cuda_runtime.o")
    stubs = scratch / "runtime_stubs.cpp"
    lines = [f'extern "C" int {name}() {{ return {CUDA_NOT_SUPPORTED}; }}\n' for name in sorted(missing)]
    stubs.write_text("".join(lines))
    objects = [scratch / "runtime.o", scratch / "cuda_runtime.o", stubs]
    _run(["g++", "-shared", "-fPIC", "-w", *objects, "-o", result / "runtime.so"])


def _runtime_source(scratch: Path) -> Path:
    """cupy_backends/cuda/api/runtime.pyx, from the source distribution of the installed version."""
    archive = _sdist(scratch)
    with tarfile.open(archive) as tar:
        wanted = [member for member in tar.getmembers() if "/cupy_backends/" in member.name]
        tar.extractall(scratch / "source", members=wanted, filter="data")
    return next((scratch / "source").glob("cupy-*/cupy_backends/cuda/api/runtime.pyx"))


def _sdist(scratch: Path) -> Path:
    version = installed_cupy()[1]
    given = os.environ.get("CUPY_ON_CPU_SDIST")
    if given:
        if not Path(given).is_file():
            raise BuildError(f"CUPY_ON_CPU_SDIST={given} is not a file")
        return Path(given)
    # pip asks the sdist for its metadata; with this variable CuPy's setup.py answers without looking for CUDA
    environment = dict(os.environ, CUPY_INSTALL_USE_STUB="1")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-binary", "cupy", "--dest", scratch, f"cupy=={version}"]
    try:
        _run(command, env=environment)
    except BuildError as error:
        hint = "get it from PyPI and set CUPY_ON_CPU_SDIST to it"
        raise BuildError(f"cupy-{version}.tar.gz could not be downloaded; {hint}\n{error}") from None
    return next(scratch.glob("cupy-*.tar.gz"))


def _cythonize(pyx: Path, cuda_version: int) -> Path:
    root = pyx.parents[3]
    constants = {
        "CUPY_CUDA_VERSION": cuda_version,
        "CUPY_HIP_VERSION": 0,
        "CUPY_USE_CUDA_PYTHON": False,
        "CUPY_CUFFT_STATIC": False,
    }
    # as in CuPy's own setup; the other modules of the wheel were compiled with the same directives
    directives = {
        "embedsignature": True,
        "c_api_binop_methods": True,
        "binding": False,
        "freethreading_compatible": True,
    }
    command = [sys.executable, "-m", "cython", "-3", "--cplus"]
    command += ["-E", _comma_separated(constants), "-X", _comma_separated(directives)]
    output = pyx.with_suffix(".cpp")
    _run([*command, pyx.relative_to(root), "-o", output], cwd=root)
    return output


def _comma_separated(settings: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in settings.items())


def _symbols(nm_options: list[str], binary: Path) -> set[str]:
    lines = _run(["nm", *nm_options, binary]).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.strip()}


# ---- the mathematical libraries


def _build_math_libraries(scratch: Path, result: Path, cuda_version: int) -> list[str]:
    """One library holds every function; the others only carry the names that the dynamic linker asks for."""
    blas = scratch / "blas_solver.o"
    _compile_object(NATIVE / "blas_solver.cpp", blas, flags=["-O2", f"-DCPU_CUDA_VERSION={cuda_version}"])
    modules = _linked_modules()
    wanted = set().union(*(_symbols(["-D", "-u"], module) for module in modules))
    implemented = _symbols(["--defined-only"], blas)
    stubs = scratch / "math_stubs.cpp"
    stubs.write_text(_stub_source(wanted - implemented))
    major = cuda_version // 1000
    # CuPy's loader insists on the last two although nothing here uses them
    sonames = [
        *sorted(_needed_cuda_libraries(modules)),
        f"libcublasLt.so.{major}",
        f"libnvJitLink.so.{major}",
    ]
    empty = scratch / "empty.cpp"
    empty.write_text("")
    for soname in sonames:
        contents = [blas, stubs, _openblas()] if soname.startswith("libcublas.so") else [empty]
        _run(["g++", "-shared", "-fPIC", "-w", *contents, f"-Wl,-soname,{soname}", "-o", result / soname])
    return sonames


def _stub_source(names: set[str]) -> str:
    """A function that is not emulated says its name, so that the failure explains itself."""
    lines = ["#include <cstdio>"]
    for name in sorted(names):
        library = next((library for library in STUB_STATUS if name.startswith(library)), None)
        if library is None:
            continue
        message = f'fputs("cupy_on_cpu: {name} is not emulated\\n", stderr);'
        lines.append(f'extern "C" int {name}() {{ {message} return {STUB_STATUS[library]}; }}')
    return "\n".join(lines) + "\n"


def _linked_modules() -> list[Path]:
    package = Path(importlib.util.find_spec("cupy_backends").submodule_search_locations[0])
    return [next((package / "cuda" / "libs").glob(f"{name}.*.so")) for name in LINKED_MODULES]


def _needed_cuda_libraries(modules: list[Path]) -> set[str]:
    needed = set()
    for module in modules:
        for line in _run(["objdump", "-p", module]).splitlines():
            words = line.split()
            if words[:1] == ["NEEDED"] and words[1].startswith("libcu"):
                needed.add(words[1])
    return needed


def _openblas() -> Path:
    package = Path(importlib.util.find_spec("numpy").submodule_search_locations[0])
    found = sorted(package.parent.glob("numpy.libs/libscipy_openblas64_*.so"))
    if not found:
        raise BuildError(
            "numpy's OpenBLAS was not found: numpy must come from a PyPI wheel (pip install numpy)"
        )
    return found[0]
