"""Faster bodies for the primitives of `backend.arrays`, by library, under the same names.

On NumPy some of them also have compiled bodies: ``*_cpu.py`` beside the primitive.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any

from arraylearn._typing import Array, Namespace
from arraylearn.backend.compiling import is_worth_compiling, use_compiled
from arraylearn.backend.namespace import library_name

__all__ = ["COMPILED", "native", "portable_only"]

# primitive -> module of `backend.arrays` that holds its compiled body
COMPILED = {
    "argsort_rows": "order_cpu",
    "bin_columns": "bins_cpu",
    "gather_block": "gather_cpu",
    "number_values": "bins_cpu",
    "paired_histogram": "segments_cpu",
    "split_lists": "blocks_cpu",
}
# Values of a call from which on it runs the compiled body, where that is not `Tuning.compiled_values`.
_LEAST_VALUES = {"gather_block": 100_000}
_LIBRARIES = ("numpy", "torch", "cupy")
_portable: ContextVar[bool] = ContextVar("arraylearn_portable", default=False)


def native(xp: Namespace, name: str, *counted: Array) -> Callable[..., Any] | None:
    """Return the native body of a primitive for this namespace, or None where the portable one serves.

    `counted` are the arguments whose values decide whether a compiled body is worth it on NumPy.
    """
    if _portable.get():
        return None
    library = library_name(xp)
    if library == "numpy" and name in COMPILED:
        n_values = sum(array.size for array in counted)
        if is_worth_compiling(n_values, _LEAST_VALUES.get(name)):
            return _load_compiled(name)
    module = _load_library(library)
    return None if module is None else getattr(module, name, None)


@cache
def _load_library(library: str) -> ModuleType | None:
    if library not in _LIBRARIES:
        return None
    return importlib.import_module(f"arraylearn.backend.native.{library}")


@cache
def _load_compiled(name: str) -> Callable[..., Any]:
    """Import the module of a compiled body, and Numba with it."""
    module = importlib.import_module(f"arraylearn.backend.arrays.{COMPILED[name]}")
    body: Callable[..., Any] = getattr(module, name)
    return body


@contextmanager
def portable_only() -> Iterator[None]:
    """Inside, the array programs and the portable bodies of all primitives run: the oracle for the others."""
    token = _portable.set(True)
    try:
        with use_compiled("never"):
            yield
    finally:
        _portable.reset(token)
