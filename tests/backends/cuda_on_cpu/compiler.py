"""Compiles CUDA C for the CPU: g++, with a header that defines the device language."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.backends.cache import cache_directory

__all__ = ["NATIVE", "CompileError", "compile_for_torch", "compile_source"]

NATIVE = Path(__file__).parent / "native"
IMAGE_MAGIC = b"CPU1"

BARRIER_WORDS = re.compile(r"__syncthreads|__syncwarp|__shfl|__any_sync|__all_sync|__ballot_sync")
LAUNCH_BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
KERNEL = rf"__global__\s+{LAUNCH_BOUNDS}void\s+{LAUNCH_BOUNDS}(\w+)\s*\("
C_KERNEL = re.compile(r'extern\s+"C"\s+' + KERNEL)
C_BLOCK = re.compile(r'extern\s+"C"\s*\{')
DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\([^)]*\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)

FIXED_FLAGS = ["-O1", "-fPIC", "-shared", "-w", "-fpermissive", "-fno-strict-aliasing", "-ffp-contract=off"]
# without this, g++ shares the static variables of equally named functions between all loaded kernels
FIXED_FLAGS += ["-fno-gnu-unique"]


class CompileError(RuntimeError):
    """g++ refuses a source; the message is what it said."""


def extra_flags() -> list[str]:
    return os.environ.get("CUPY_ON_CPU_CXXFLAGS", "").split()


def compile_source(
    source: str,
    options: Sequence[str] = (),
    *,
    cuda_major: int = 13,
    include_dirs: Iterable[Path] = (),
    name_expressions: Sequence[str] = (),
) -> tuple[bytes, dict[str, str]]:
    """A module image for the driver, and the names of the template instances."""
    runners, mapping = launch_functions(source, name_expressions)
    text = '#include "device_language.h"\n' + pointer_to_shared_memory(source) + "\n" + runners
    flags = [f"-DCPU_CUDA_MAJOR={cuda_major}", *(f"-I{directory}" for directory in (NATIVE, *include_dirs))]
    library = _compile_with_gxx(text, options, flags)
    return IMAGE_MAGIC + len(library).to_bytes(8, "little") + library, mapping


def compile_for_torch(
    source: str, name: str, architecture: str, options: Sequence[str] = ()
) -> tuple[bytes, str]:
    """Stands in for `arraylearn.backend.gpu.driver.compile_cuda`; images are kept on the disk."""
    sources = [Path(__file__), *sorted(NATIVE.iterdir())]
    key = hashlib.sha256(repr((source, options, extra_flags())).encode())
    key.update(b"".join(each.read_bytes() for each in sources))
    kept = cache_directory("cuda_on_cpu", "CUDA_ON_CPU_CACHE") / "kernels" / key.hexdigest()[:24]
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        image, _ = compile_source(source, options)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as scratch:
            scratch.write(image)
        os.replace(scratch.name, kept)  # atomic: another process may compile it, too
    return kept.read_bytes(), ""


def _compile_with_gxx(text: str, options: Sequence[str], machine_flags: Sequence[str]) -> bytes:
    kept = [option for option in options if option.startswith(("-I", "-D"))]
    standards = [option for option in options if option.startswith(("-std=", "--std="))]
    flags = [(standards or ["-std=c++17"])[-1], *FIXED_FLAGS, *extra_flags(), *machine_flags, *kept]
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "kernel.cpp")
        library = Path(scratch, "kernel.so")
        source.write_text(text)
        result = subprocess.run(["g++", *flags, source, "-o", library], capture_output=True, text=True)
        if result.returncode:
            raise CompileError(result.stderr[:5000])
        return library.read_bytes()


def launch_functions(source: str, name_expressions: Sequence[str]) -> tuple[str, dict[str, str]]:
    """C++ text that lets the driver start each kernel by name, and the names of the template instances."""
    has_barriers = bool(BARRIER_WORDS.search(source))
    lines = [f'extern "C" {{ int cpu_has_barriers = {int(has_barriers)}; }}']
    # outside extern "C" the name of a kernel is mangled, and CuPy would not find it on a GPU either
    pattern = re.compile(KERNEL) if C_BLOCK.search(source) else C_KERNEL
    lines += [launch_function(kernel, kernel) for kernel in sorted(set(pattern.findall(source)))]
    mapping = {}
    for number, expression in enumerate(name_expressions):
        mapping[expression] = f"instance{number}"
        lines.append(launch_function(mapping[expression], expression))
    return "\n".join(lines) + "\n", mapping


def launch_function(name: str, kernel: str) -> str:
    return f'extern "C" void cpu_run_{name}(void** arguments) {{ cpu_call(&{kernel}, arguments); }}'


def pointer_to_shared_memory(source: str) -> str:
    """`extern __shared__ T name[];` means nothing on a host: the driver passes the memory with the launch."""
    return DYNAMIC_SHARED.sub(r"\1* \2 = (\1*)cpu_launch->shared_memory;", source)
