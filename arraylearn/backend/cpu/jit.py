"""How the bodies for CPUs are compiled, and where the result is kept on disk.

Compiled code stands in the modules ``*_cpu.py`` of all rooms, in this room, and in the modules
``formulas.py``. Numba sees that a kept result is stale by the file of the function alone, but a compiled
function holds copies of those it calls, and of constants. So results are kept in a folder named by a digest
of all these sources, and of the modules that they import from.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import overload

from arraylearn._typing import HostArray
from arraylearn.backend.spinner import Spinner
from arraylearn.backend.threads import run_to_the_end

__all__ = [
    "Bool",
    "CompileNotice",
    "Float",
    "Host",
    "HostOrNone",
    "Int",
    "compiled",
    "compiled_loosely",
    "digest_sources",
    "entry",
    "index",
    "inlined",
    "loops_for",
    "loose_part",
    "part",
    "signed",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Host = HostArray  # the short name, for the long signatures of compiled loops
HostOrNone = Any  # the same, or None, for which Numba leaves out the code that reads the array
Int = Any  # an integer, Python's or NumPy's
Float = Any  # a float, Python's or NumPy's
Bool = Any  # a truth value, Python's or NumPy's
# Indices that are never negative: a signed index costs a test, since negative ones count from the end. Do not
# mix the two: the sum of a signed and an unsigned integer is a float. `signed` converts back.
index: Any = np.uintp
signed: Any = np.int64

_PACKAGE = Path(__file__).parents[2]
_PATTERNS = ("**/*_cpu.py", "**/formulas.py", "backend/cpu/*.py")
_IMPORTED = re.compile(r"^from arraylearn\.([\w.]+) import", re.MULTILINE)
_PREFIX = "arraylearn-"
_LOOSE = {"nnan", "nsz", "reassoc", "contract", "arcp"}
_config: Any = numba.config
_log = logging.getLogger("arraylearn.compile")
_SECONDS = 1.0
_NOTICE = (
    "compiling for this machine, which takes some seconds for each learner and happens once; "
    "`arraylearn compile` does it beforehand for all of them"
)


class CompileNotice(event.Listener):
    """Log once per process that functions are being compiled, as soon as that has taken a second in all.

    On a terminal a spinner shows while it lasts. While Numba compiles, the collector of cyclic garbage is
    off: it would take a tenth of the time. Numba sends these events for compilations only, not for code
    loaded from disk. It compiles under a lock; the events of called functions are nested in those of their
    caller, so a counter of open events is enough.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._left = seconds  # of compilation until the notice is due
        self._depth = 0
        self._began = 0.0
        self._timer: threading.Timer | None = None
        self._spinner: Spinner | None = None
        self._collects = False  # whether the collector was on

    def on_start(self, event: Any) -> None:
        """Start the clock with the outermost function, and switch the collector off."""
        self._depth += 1
        if self._depth > 1:
            return
        self._collects = gc.isenabled()
        gc.disable()
        self._spinner = Spinner("compiling for this machine", max(self._left, _SECONDS / 2))
        if self._left > 0:
            self._began = time.perf_counter()
            self._timer = threading.Timer(self._left, _log.warning, [_NOTICE])
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the clock, subtract the time taken, and restore the collector, with the outermost function."""
        self._depth -= 1
        if self._depth:
            return
        if self._collects:
            gc.enable()
        if self._spinner is not None:
            self._spinner.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left -= time.perf_counter() - self._began


event.register("numba:compile", CompileNotice())


def digest_sources(package: Path = _PACKAGE) -> str:
    """Return a digest of every source that may be compiled or gives constants, and of Numba's version."""
    found = hashlib.sha256(numba.__version__.encode())
    sources = {path for pattern in _PATTERNS for path in package.glob(pattern)}
    names = {name for source in sources for name in _IMPORTED.findall(source.read_text(encoding="utf-8"))}
    imported = {package / (name.replace(".", "/") + ".py") for name in names}
    for source in sorted(sources | {path for path in imported if path.is_file()}):
        found.update(source.relative_to(package).as_posix().encode())
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def entry(function: Function) -> Function:
    """Compile a function at its first call, for the types of its arguments, and keep the result on disk.

    The interpreter lock is released. No fast mathematics: sums keep their order and products their rounding,
    so that the bits are those of the array programs. Indices are not checked and must not be negative
    unless the code means them to wrap around. References to arrays are not counted: the function makes none.
    """
    return _keep(function, _nrt=False, no_cfunc_wrapper=True)


class _PartCode(JITCodeLibrary):
    """Code that becomes machine code only within its callers, which saves a fifth of the compile time."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the code is optimized in its callers."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0 as there is no machine code of its own."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _PartCode:
        """The object whose `set_env` Numba calls."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: code that uses no Python objects reads no environment."""


class _PartCompiler(Compiler):
    """Numba's compiler, which puts its result into a `_PartCode`."""

    def __init__(self, typing: Any, target: Any, library: Any, *given: Any) -> None:
        super().__init__(typing, target, library or _PartCode(target.codegen(), "part"), *given)


_PART = {
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _PartCompiler,
}


def part(function: Function) -> Function:
    """Compile a function that only an `entry` or another part calls: it is kept with its caller."""
    return _compile(function, **_PART)


def loose_part(function: Function) -> Function:
    """Compile a part whose last bits do not matter, see `compiled_loosely`."""
    return _compile(function, fastmath=_LOOSE, **_PART)


def inlined(function: Function) -> Function:
    """Compile a part into the code of its caller, which then copies no arguments: for calls on a few rows.

    An array argument is seven words: passing a record of ten arrays costs as much as the work on ten rows.
    """
    return _compile(function, forceinline=True, **_PART)


def compiled(function: Function) -> Function:
    """Compile as `entry` does a function that may make arrays."""
    return _keep(function)


def compiled_loosely(function: Function) -> Function:
    """Compile a function whose last bits do not matter, so that its sums and maxima run in vectors.

    Infinite values are fine, NaN is not.
    """
    return _keep(function, fastmath=_LOOSE)


def loops_for(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Register a replacement for `function` in compiled code; Python runs `function` itself.

    Both have the same parameters. Results may differ by rounding, see `compiled_loosely`.
    """

    def register(loops: Function) -> Function:
        @wraps(loops)
        def choose(*types: Any, **keywords: Any) -> Function:
            return loops

        overload(function, jit_options={"fastmath": _LOOSE, "error_model": "numpy"})(choose)
        return loops

    return register


def _keep(function: Function, **options: Any) -> Function:
    folder = _folder()
    if folder is None:  # no folder that may be written: every process compiles for itself
        return _compile(function, **options)
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(folder)  # read by Numba while it decorates
    try:
        return _compile(function, cache=True, **options)
    finally:
        _config.CACHE_DIR = before


def _compile(function: Function, **options: Any) -> Function:
    options |= {"nogil": True, "error_model": "numpy"}
    dispatcher = numba.njit(**options)(function)
    compile_or_load = dispatcher._compile_for_args
    dispatcher._compile_for_args = lambda *given: run_to_the_end(lambda: compile_or_load(*given))
    return cast(Function, dispatcher)


@cache
def _folder() -> Path | None:
    """Return the folder of these sources, or None where none may be written; older ones are removed."""
    name = _PREFIX + digest_sources()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arraylearn"
    given = _config.CACHE_DIR
    for parent in [Path(given)] if given else [Path(__file__).parent / "__pycache__", home]:
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            for other in parent.glob(_PREFIX + "*"):
                if other != folder:
                    shutil.rmtree(other, ignore_errors=True)
            return folder
    return None
