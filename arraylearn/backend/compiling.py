"""Whether primitives on NumPy run bodies that Numba compiles, where it is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal, get_args

from arraylearn.backend.errors import BackendUnavailableError

__all__ = [
    "CompiledMode",
    "describe_compiled",
    "get_compiled",
    "is_numba_installed",
    "set_compiled",
    "use_compiled",
]

CompiledMode = Literal["auto", "always", "never"]

_mode: CompiledMode | None = None


def set_compiled(mode: CompiledMode | None) -> None:
    """Say when primitives on NumPy run compiled bodies. The models are the same to the last bit.

    They need Numba (``pip install 'arraylearn[compiled]'``), release the interpreter lock, so that threads
    help, and are compiled once per machine, when they are first used, which takes some seconds.

    Parameters
    ----------
    mode : {"auto", "always", "never"} or None
        "auto" wakes Numba at the first call with many values and uses it from then on; "always" uses it for
        every call, and raises where it is not installed; "never" leaves all to NumPy. None is the default:
        the environment variable ``ARRAYLEARN_COMPILED``, or "auto".

    Examples
    --------
    >>> import arraylearn as al
    >>> al.set_compiled("never")
    >>> al.get_compiled()
    'never'
    >>> al.set_compiled(None)
    """
    global _mode
    if mode is not None:
        _check(mode, "`mode`")
        if mode == "always" and not is_numba_installed():
            raise BackendUnavailableError(
                "`mode`='always' needs Numba, which is not installed; "
                "pip install 'arraylearn[compiled]', or choose 'auto' or 'never'."
            )
    _mode = mode


def get_compiled() -> CompiledMode:
    """Return when primitives on NumPy run compiled bodies: "auto", "always" or "never"."""
    if _mode is not None:
        return _mode
    return _check(os.environ.get("ARRAYLEARN_COMPILED") or "auto", "ARRAYLEARN_COMPILED")


@contextmanager
def use_compiled(mode: CompiledMode) -> Iterator[None]:
    """Say the same for a block of code; like `set_compiled`, for all threads of this process."""
    before = _mode
    set_compiled(mode)
    try:
        yield
    finally:
        set_compiled(before)


def _check(mode: str, name: str) -> CompiledMode:
    for known in get_args(CompiledMode):
        if mode == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"{name} must be 'auto', 'always' or 'never'; got {mode!r}.")


@cache
def is_numba_installed() -> bool:
    """Tell whether Numba is there, without importing it."""
    return importlib.util.find_spec("numba") is not None


def describe_compiled() -> str:
    """Say in a few words whether compiled bodies are used here, and how to get them."""
    if not is_numba_installed():
        return "no, Numba is not installed; pip install 'arraylearn[compiled]'"
    return f"{get_compiled()}, by Numba {importlib.metadata.version('numba')}"
