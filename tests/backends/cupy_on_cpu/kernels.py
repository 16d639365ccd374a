"""Stands in for NVRTC: compiles the kernel sources that CuPy generates with g++."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from cupy.cuda import compiler

NATIVE = Path(__file__).parent / "native"
IMAGE_MAGIC = b"CPU1"

RealNvrtcProgram = compiler._NVRTCProgram

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


def extra_flags() -> list[str]:
    return os.environ.get("CUPY_ON_CPU_CXXFLAGS", "").split()


def nvrtc_must_accept() -> bool:
    return os.environ.get("CUPY_ON_CPU_NVRTC") == "1"


def program_class(cuda_version: int, include_dirs: list[Path]) -> type:
    """A class with the interface of cupy.cuda.compiler._NVRTCProgram."""
    machine_flags = [f"-DCPU_CUDA_MAJOR={cuda_version // 1000}", f"-I{NATIVE}"]
    machine_flags += [f"-I{directory}" for directory in include_dirs]

    class HostProgram:
        def __init__(
            self, src, name="program", headers=(), include_names=(), name_expressions=None, method="ptx"
        ):
            self.source = src.decode() if isinstance(src, bytes) else src
            self.name = name
            self.headers = (headers, include_names)
            self.name_expressions = tuple(name_expressions or ())
            self.method = method

        def compile(self, options=(), log_stream=None):
            if not self.source.strip():
                return (
                    b"// cupy_on_cpu\n",
                    None,
                )  # CuPy compiles nothing to learn the compiler's name from the comments
            if nvrtc_must_accept():
                self._compile_with_nvrtc(options, log_stream)
            runners, mapping = launch_functions(self.source, self.name_expressions)
            text = '#include "device_language.h"\n' + pointer_to_shared_memory(self.source) + "\n" + runners
            library = self._compile_with_gxx(text, options)
            return IMAGE_MAGIC + len(library).to_bytes(8, "little") + library, mapping or None

        def _compile_with_nvrtc(self, options, log_stream):
            expressions = self.name_expressions or None
            program = RealNvrtcProgram(self.source, self.name, *self.headers, expressions, self.method)
            program.compile(options, log_stream)

        def _compile_with_gxx(self, text, options):
            kept = [option for option in options if option.startswith(("-I", "-D"))]
            standards = [option for option in options if option.startswith(("-std=", "--std="))]
            flags = [(standards or ["-std=c++17"])[-1], *FIXED_FLAGS, *extra_flags(), *machine_flags, *kept]
            with tempfile.TemporaryDirectory() as scratch:
                source = Path(scratch, "kernel.cpp")
                library = Path(scratch, "kernel.so")
                source.write_text(text)
                result = subprocess.run(
                    ["g++", *flags, source, "-o", library], capture_output=True, text=True
                )
                if result.returncode:
                    raise compiler.CompileException(
                        result.stderr[:5000], self.source, self.name, options, "g++"
                    )
                return library.read_bytes()

    return HostProgram


def launch_functions(source: str, name_expressions: tuple[str, ...]) -> tuple[str, dict[str, str]]:
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
