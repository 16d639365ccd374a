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
    "MANY_VALUES",
    "CompiledMode",
    "describe_compiled",
    "get_compiled",
    "is_numba_installed",
    "is_worth_compiling",
    "set_compiled",
    "use_compiled",
]

CompiledMode = Literal["auto", "always", "never"]

# From this many values on, "auto" runs compiled bodies: Numba is imported (0.3 s), and the first run on a
# machine also compiles.
MANY_VALUES = 20_000

_mode: CompiledMode | None = None


def set_compiled(mode: CompiledMode | None) -> None:
    """Choose when primitives on NumPy run compiled bodies. The models are the same to the last bit.

    They need Numba (``pip install 'arraylearn[compiled]'``), release the interpreter lock, so that threads
    help, and are compiled once per machine, when they are first used, which takes some seconds.

    Parameters
    ----------
    mode : {"auto", "always", "never"} or None
        "auto" uses Numba, where it is installed, for calls with many values (20,000 or more); "always" uses
        it for every call, and raises where it is not installed; "never" leaves all to NumPy. None is the
        default: the environment variable ``ARRAYLEARN_COMPILED``, or "auto".

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
    """Choose the same for a block of code; like `set_compiled`, for all threads of this process."""
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


def is_worth_compiling(n_values: int, least: int = MANY_VALUES) -> bool:
    """Whether work on so many values runs compiled bodies; "auto" chooses them from `least` values on."""
    mode = get_compiled()
    return mode == "always" or (mode == "auto" and n_values >= least and is_numba_installed())


@cache
def is_numba_installed() -> bool:
    """Whether Numba can be imported; it is not imported to find out."""
    return importlib.util.find_spec("numba") is not None


def describe_compiled() -> str:
    """Return in a few words whether compiled bodies are used here, and how to get them."""
    if not is_numba_installed():
        return "no, Numba is not installed; pip install 'arraylearn[compiled]'"
    return f"{get_compiled()}, by Numba {importlib.metadata.version('numba')}"
