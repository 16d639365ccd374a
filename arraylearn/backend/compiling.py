"""Whether primitives on NumPy run bodies that Numba compiles, where it is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal, cast, get_args

from arraylearn.backend.errors import BackendFallbackWarning, BackendUnavailableError, warn_caller
from arraylearn.backend.namespace import Place
from arraylearn.backend.tuning import get_tuning

__all__ = [
    "CompiledMode",
    "describe_compiled",
    "get_compiled",
    "is_numba_installed",
    "is_worth_compiling",
    "set_compiled",
    "use_compiled",
    "why_not_compiled",
]

CompiledMode = Literal["auto", "always", "never"]

_mode: CompiledMode | None = None
_has_warned = False


def set_compiled(mode: CompiledMode | None) -> None:
    """Choose when primitives on NumPy run compiled bodies. The models are the same to the last bit.

    They need Numba, release the interpreter lock, so that threads help, and are compiled once per machine,
    when they are first used, which takes some seconds; ``arraylearn compile`` does it beforehand. Numba is
    installed with this package where there are wheels of it; without it, the first large call warns once.

    Parameters
    ----------
    mode : {"auto", "always", "never"} or None
        "auto" uses Numba, where it is installed, for calls with many values (20,000 or more); "always" uses
        it for every call, and raises where it is not installed; "never" leaves all to NumPy and warns of
        nothing. None is the
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
    _mode = None if mode is None else _check(mode, "`mode`")


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
    if mode not in get_args(CompiledMode):
        raise ValueError(f"{name} must be 'auto', 'always' or 'never'; got {mode!r}.")
    if mode == "always" and not is_numba_installed():
        raise BackendUnavailableError(
            f"{name}='always' needs Numba, which is not installed; pip install numba, or choose 'auto' or "
            "'never'."
        )
    return cast(CompiledMode, mode)


def is_worth_compiling(n_values: int, least: int | None = None) -> bool:
    """Whether work on so many values runs compiled bodies; warn once where only Numba is missing.

    `least` is the number of values from which on "auto" chooses them; default: that of the tuning.
    """
    mode = get_compiled()
    if mode != "auto":
        return mode == "always"
    if n_values < (get_tuning().compiled_values if least is None else least):
        return False
    if not is_numba_installed():
        _warn_once()
        return False
    return True


def _warn_once() -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warn_caller(
            "Numba is not installed: NumPy computes the same results, trees, forests, boosting and support "
            "vector machines several times slower. Remedy: pip install numba. To go on without it and "
            "without this warning: arraylearn.set_compiled('never').",
            BackendFallbackWarning,
        )


def why_not_compiled(place: Place, n_values: int, least: int | None = None) -> str | None:
    """Return why work on so many values at a place is left to the array program; None where it is not."""
    if place.library != "numpy":
        return f"the rows are computed with by {place.library}"
    if get_compiled() == "never":
        return "compiled bodies are switched off"
    if is_worth_compiling(n_values, least):
        return None
    if not is_numba_installed():
        return "Numba is not installed"
    return f"less work than {get_tuning().compiled_values if least is None else least:,} values"


@cache
def is_numba_installed() -> bool:
    """Whether Numba can be imported; it is not imported to find out."""
    return importlib.util.find_spec("numba") is not None


def describe_compiled() -> str:
    """Return in a few words whether compiled bodies are used here, and how to get them."""
    if not is_numba_installed():
        return "no, Numba is not installed; pip install numba"
    return f"{get_compiled()}, by Numba {importlib.metadata.version('numba')}"
