"""Stands in for NVRTC: compiles the kernel sources that CuPy generates with g++."""

from __future__ import annotations

import os
from pathlib import Path

from cupy.cuda import compiler

from tests.backends.cuda_on_cpu.compiler import CompileError, compile_source

RealNvrtcProgram = compiler._NVRTCProgram


def nvrtc_must_accept() -> bool:
    return os.environ.get("CUPY_ON_CPU_NVRTC") == "1"


def program_class(cuda_version: int, include_dirs: list[Path]) -> type:
    """A class with the interface of cupy.cuda.compiler._NVRTCProgram."""

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
            try:
                image, mapping = compile_source(
                    self.source,
                    options,
                    cuda_major=cuda_version // 1000,
                    include_dirs=include_dirs,
                    name_expressions=self.name_expressions,
                )
            except CompileError as error:
                raise compiler.CompileException(str(error), self.source, self.name, options, "g++") from None
            return image, mapping or None

        def _compile_with_nvrtc(self, options, log_stream):
            expressions = self.name_expressions or None
            program = RealNvrtcProgram(self.source, self.name, *self.headers, expressions, self.method)
            program.compile(options, log_stream)

    return HostProgram
