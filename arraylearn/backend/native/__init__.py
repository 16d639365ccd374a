"""Faster bodies for the primitives of `backend.arrays` and `backend.ops`, by library, under the same names.

On NumPy some of them also have compiled bodies: ``*_cpu.py`` beside the primitive, and those of
`arraylearn.backend.native.compiled`.
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
from arraylearn.backend.native.compiled import choose_body, load_body

__all__ = ["native", "portable_only"]

_LIBRARIES = ("numpy", "torch", "cupy")
_portable: ContextVar[bool] = ContextVar("arraylearn_portable", default=False)


def native(xp: Namespace, name: str, *counted: Array) -> Callable[..., Any] | None:
    """Return the native body of a primitive for this namespace, or None where the portable one serves.

    `counted` are the arguments whose values decide whether a compiled body is worth it on NumPy.
    """
    if _portable.get():
        return None
    library = library_name(xp)
    module = _module(library)
    body = None if module is None else getattr(module, name, None)
    if library != "numpy":
        return body
    if not counted:
        return choose_body(name, body)
    return load_body(name) if is_worth_compiling(sum(array.size for array in counted)) else body


@cache
def _module(library: str) -> ModuleType | None:
    if library not in _LIBRARIES:
        return None
    return importlib.import_module(f"arraylearn.backend.native.{library}")


@contextmanager
def portable_only() -> Iterator[None]:
    """Inside, the array programs and the portable bodies of all primitives run: the oracle for the others."""
    token = _portable.set(True)
    try:
        with use_compiled("never"):
            yield
    finally:
        _portable.reset(token)
