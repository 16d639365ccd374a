"""Which body of a primitive or a learner runs: the table of bodies, the switch for compiled ones, thresholds.

>>> from arraylearn.backend.dispatch import get_tuning, tuned
>>> with tuned(compiled_values=100):
...     get_tuning().compiled_values
100
>>> get_tuning().compiled_values
200000
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any, Literal, TypeVar, cast, get_args

from arraylearn._typing import Array, Namespace
from arraylearn.backend.errors import BackendFallbackWarning, BackendUnavailableError, warn_caller
from arraylearn.backend.namespace import Place, library_name

__all__ = [
    "COMPILED",
    "CompiledMode",
    "Tuning",
    "describe_compiled",
    "get_compiled",
    "get_tuning",
    "is_numba_installed",
    "is_worth_compiling",
    "native",
    "numpy_body",
    "portable_only",
    "set_compiled",
    "state_work",
    "stated_work",
    "tuned",
    "use_compiled",
    "why_not_compiled",
]

Function = TypeVar("Function", bound=Callable[..., Any])
CompiledMode = Literal["auto", "always", "never"]

# primitive -> module of `backend.arrays` that holds its compiled body
COMPILED = {
    "argsort_rows": "order_cpu",
    "bin_columns": "order_cpu",
    "number_values": "order_cpu",
    "paired_histogram": "segments_cpu",
    "split_lists": "segments_cpu",
}
# primitive -> its body for NumPy, which stands beside the portable one
_NUMPY: dict[str, Callable[..., Any]] = {}
_portable: ContextVar[bool] = ContextVar("arraylearn_portable", default=False)
# Of the running call of a learner, whose door sets it: its work, and the least that is worth compiled bodies;
# empty: not stated yet.
stated_work: ContextVar[list[tuple[int, int]] | None] = ContextVar("arraylearn_stated_work", default=None)
_mode: CompiledMode | None = None
_has_warned = False


def native(xp: Namespace, name: str, *counted: Array) -> Callable[..., Any] | None:
    """Return the native body of a primitive for this namespace, or None where the portable one serves.

    `counted` are the arguments whose values decide whether a compiled body is worth it on NumPy.
    """
    if _portable.get():
        return None
    library = library_name(xp)
    if library == "numpy":
        if name in COMPILED and is_worth_compiling(sum(array.size for array in counted)):
            return _load_compiled(name)
        return _NUMPY.get(name)
    return getattr(_load_library(library), name, None) if library in ("torch", "cupy") else None


def numpy_body(function: Function) -> Function:
    """Register ``_name`` as the NumPy body of the primitive ``name``."""
    _NUMPY[function.__name__.removeprefix("_")] = function
    return function


@cache
def _load_library(library: str) -> ModuleType:
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


# ---- the switch for compiled bodies


def set_compiled(mode: CompiledMode | None) -> None:
    """Choose when primitives on NumPy run compiled bodies. The models are the same to the last bit.

    They need Numba, release the interpreter lock, so that threads help, and are compiled once per machine,
    when they are first used, which takes some seconds; ``arraylearn compile`` does it beforehand. Numba is
    installed with this package where there are wheels of it; without it, the first large call warns once.

    Parameters
    ----------
    mode : {"auto", "always", "never"} or None
        "auto" uses Numba, where it is installed, for calls with much work: a tree of 15,000 values, a forest
        of 1,000,000 values x trees (the guide has the table); "always" uses it for every call, and raises
        where it is not installed; "never" leaves all to NumPy and warns of nothing. None is the default: the
        environment variable ``ARRAYLEARN_COMPILED``, or "auto".

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
    stated = os.environ.get("ARRAYLEARN_COMPILED")
    return _check(stated, "ARRAYLEARN_COMPILED") if stated else "auto"


@contextmanager
def use_compiled(mode: CompiledMode) -> Iterator[None]:
    """Choose when compiled bodies run in a block of code: `set_compiled`, for all threads of the process."""
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


def state_work(amount: int, least: int) -> None:
    """Let "auto" choose all bodies of this call of a learner by the work of the call as a whole.

    So the parts of a small fit or prediction run no compiled code, and all parts of a large one do. What an
    outer call has stated stays; outside of the call of a learner nothing is stated.
    """
    stated = stated_work.get()
    if stated is not None and not stated:
        stated.append((amount, least))


def is_worth_compiling(amount: int, least: int | None = None) -> bool:
    """Whether work of this amount runs compiled bodies; warn once where only Numba is missing.

    `least` is the amount from which on "auto" chooses them, by default that of the tuning for primitives.
    Where a learner has stated its work, that counts.
    """
    mode = get_compiled()
    if mode != "auto":
        return mode == "always"
    amount, least = _weighed(amount, least)
    if amount < least:
        return False
    if not is_numba_installed():
        _warn_once()
        return False
    return True


def _weighed(amount: int, least: int | None) -> tuple[int, int]:
    """Return the amount that counts, and what it is compared with."""
    if stated := stated_work.get():
        return stated[0]
    return amount, get_tuning().compiled_values if least is None else least


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


def why_not_compiled(place: Place, amount: int, least: int | None = None) -> str | None:
    """Return the reason why the array program does work of this amount at a place; None if it does not."""
    if place.library != "numpy":
        return f"the rows are computed with by {place.library}"
    if is_worth_compiling(amount, least):
        return None
    if get_compiled() == "never":
        return "compiled bodies are switched off"
    if not is_numba_installed():
        return "Numba is not installed"
    return f"less work than {_weighed(amount, least)[1]:,}"


@cache
def is_numba_installed() -> bool:
    """Whether Numba can be imported; it is not imported to find out."""
    return importlib.util.find_spec("numba") is not None


def describe_compiled() -> str:
    """Return in a few words whether compiled bodies are used here, and how to get them."""
    if not is_numba_installed():
        return "no, Numba is not installed; pip install numba"
    return f"{get_compiled()}, by Numba {importlib.metadata.version('numba')}"


# ---- thresholds
#
# A threshold is a field here if a test has to reach both sides of it; other constants stand beside their
# code. Models are the same on both sides (support vector machines: within their tolerance).


@dataclass(frozen=True)
class Tuning:
    """Thresholds of the package, with their defaults."""

    # Work from which on "auto" runs compiled bodies, and the time of the array program there. The first body
    # of a process loads Numba, 0.35 s of CPU, and the first on a machine compiles, some seconds.
    # values that a primitive sorts, bins or counts: 10 ms
    compiled_values: int = 200_000
    # rows x columns of a tree: 6 ms
    compiled_tree: int = 15_000
    # rows x columns x trees of a forest: 120 ms
    compiled_forest: int = 1_000_000
    # (rows x columns + 10,000) x trees of boosting: a tree takes calls that do not depend on the rows; 25 ms
    compiled_boosting: int = 300_000
    # rows x numeric columns that rules are learned from: 50 to 130 ms
    compiled_rules: int = 20_000
    # rows x trees x levels of a prediction: under 1 ms
    compiled_walk: int = 150_000
    # factor on the least work that a thread gets, which each body states for itself; 0: whatever there is
    thread_share: float = 1.0
    # where there are more rows, quantiles are computed from so many of them, in constant time
    binning_sample: int = 200_000
    # values from which on columns are sorted and binned by several threads: starting them takes time, too
    binning_thread_values: int = 50_000
    # rows of the trees that a GPU grows in one batch: a level takes the same launches for one or a hundred
    forest_device_rows: int = 2_000_000
    # the same on a CPU, level by level: the rows of a batch stay in the caches
    forest_host_rows: int = 25_000
    # the same on a CPU, depth first: batching gains nothing, but feeds the threads
    forest_depth_first_rows: int = 50_000
    # rows x columns of a tree from which on a second thread helps: a hand-over takes 30 to 125 us, which in
    # smaller ones costs boosting more than the thread gains
    growth_thread_cells: int = 4_000_000
    # rows x columns of a node from which on a second thread helps to search its lists
    list_thread_values: int = 100_000
    # a numeric column with at most this many distinct values is counted by value; others are kept sorted
    rule_counted_values: int = 255
    # mean rows of a pair of classes from which on a search over C follows one path along the prices; fewer
    # are solved faster one by one, unless pair steps are compiled
    svm_path_rows: int = 500
    # up to this many rows all problems of a search over C are solved at once, by splitting, which is then
    # faster than one path each on a CPU, too, unless pair steps are compiled
    svm_splitting_rows: int = 400
    # rows that walk down one tree before the next one is fetched into the cache
    walk_block_rows: int = 65_536
    # steps of prediction (rows x trees x levels) that a thread must have, or starting it takes longer
    walk_thread_steps: int = 500_000
    # libraries that read and write files of tables; the first one installed does it
    frame_libraries: tuple[str, ...] = ("polars", "pyarrow", "pandas")


_tuning = Tuning()


def get_tuning() -> Tuning:
    """Return the thresholds in force; asked for at each call, never kept."""
    return _tuning


@contextmanager
def tuned(**changes: Any) -> Iterator[Tuning]:
    """Change thresholds, by their names, for a block of code; for all threads of this process."""
    global _tuning
    before = _tuning
    _tuning = replace(before, **changes)
    try:
        yield _tuning
    finally:
        _tuning = before
