"""Choose the backend: estimator > context > process > environment > follow the input.

To follow an input on the CPU means NumPy, on the input's own memory: the bodies for CPUs are NumPy's. So
torch computes on the CPU only where it was named.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from arraylearn.backend.errors import BackendFallbackWarning, BackendUnavailableError, warn_caller
from arraylearn.backend.namespace import HOST, Place, is_array, is_on_host, locate
from arraylearn.backend.probe import Availability, parse, probe

__all__ = [
    "choose_place",
    "compute_at_home",
    "find_places",
    "get_backend",
    "resolve",
    "set_backend",
    "use_backend",
]

# What "auto" tries, in this order.
_AUTO = ("cupy", "torch:cuda", "numpy")


class Choice(NamedTuple):
    """A backend by name and what stands in where it is missing."""

    name: str | None  # None: follow the input
    fallback: str | None


_UNSET = Choice(None, None)  # nothing chosen; compared by identity
_context: ContextVar[Choice] = ContextVar("arraylearn_backend", default=_UNSET)
_process: Choice = _UNSET
_is_at_home = False
_warned: set[tuple[str, str]] = set()
_lock = threading.Lock()


def set_backend(name: str | None, *, fallback: str | None = None) -> None:
    """Choose the backend of this process.

    Parameters
    ----------
    name : str or None
        ``"numpy"``, ``"torch"``, ``"torch:cuda:0"``, ``"cupy"``, ``"cupy:1"``, ``"auto"`` (a CUDA device that
        works, else NumPy), or None: compute where the input lives, for torch on the CPU by NumPy on the
        same memory.
    fallback : str, optional
        Backend to use, after one `BackendFallbackWarning`, where `name`, or the ``backend=`` of an estimator,
        is not available. Without it a missing backend raises `BackendUnavailableError`, here and now.

    See Also
    --------
    use_backend : the same for a block of code.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.set_backend("numpy")
    >>> al.get_backend()
    'numpy'
    >>> al.set_backend(None)
    """
    global _process
    choice = _checked(name, fallback)
    with _lock:
        _process = choice


@contextmanager
def use_backend(name: str | None, *, fallback: str | None = None) -> Iterator[None]:
    """Choose the backend of a block; re-entrant, and local to the thread or task that enters it.

    Parameters
    ----------
    name, fallback
        As in `set_backend`.

    Examples
    --------
    >>> import arraylearn as al
    >>> with al.use_backend("numpy"):
    ...     al.get_backend()
    'numpy'
    """
    token = _context.set(_checked(name, fallback))
    try:
        yield
    finally:
        _context.reset(token)


def get_backend() -> str | None:
    """Return the name of the backend in force here, or None where computation follows the input."""
    return _in_force().name


def choose_place(home: Place, backend: str | None = None) -> Place:
    """Return where to compute for an input that lives at `home` and an estimator's ``backend=``."""
    name, fallback = _in_force()
    if backend is not None:
        name, fallback = backend, _context.get().fallback or _process.fallback
    if name is not None:
        return resolve(name, fallback=fallback or _environment_fallback())
    is_cpu_tensor = home.library == "torch" and is_on_host(home)
    return HOST if is_cpu_tensor and not _is_at_home else home


def find_places(*arguments: object) -> tuple[Place, Place]:
    """Return the home of a function's arguments, and where it computes: there, unless a backend was chosen.

    Home is the place of the first argument that is an array; lists and scalars live on the host.
    """
    home = next((locate(argument) for argument in arguments if is_array(argument)), HOST)
    return home, choose_place(home) if get_backend() else home


@contextmanager
def compute_at_home() -> Iterator[None]:
    """Inside, in all threads, torch computes with its own tensors on the CPU, too: for tests of torch."""
    global _is_at_home
    before, _is_at_home = _is_at_home, True
    try:
        yield
    finally:
        _is_at_home = before


def resolve(name: str, *, fallback: str | None = None) -> Place:
    """Return the place of a named backend, or of its fallback; raise where neither works."""
    if name == "auto":
        return _first_that_works(_AUTO)
    found = probe(parse(name))
    if isinstance(found, Place):
        return found
    message = f"backend {name!r} is not available here: {found.reason}. Remedy: {found.remedy}."
    if fallback is None:
        raise BackendUnavailableError(
            f"{message} Or name a stand-in: arraylearn.set_backend({name!r}, fallback='numpy')."
        )
    _warn_once(name, fallback, message)
    return resolve(fallback)


def _checked(name: str | None, fallback: str | None) -> Choice:
    """Refuse an impossible choice at once, where the user wrote it."""
    if name is not None:
        resolve(name, fallback=fallback or _environment_fallback())
    elif fallback is not None:
        resolve(fallback)
    return Choice(name, fallback)


def _in_force() -> Choice:
    chosen = _context.get()
    if chosen is _UNSET:
        chosen = _process
    if chosen is not _UNSET:
        return chosen
    return Choice(os.environ.get("ARRAYLEARN_BACKEND") or None, None)


def _environment_fallback() -> str | None:
    return os.environ.get("ARRAYLEARN_FALLBACK") or None


def _first_that_works(names: tuple[str, ...]) -> Place:
    reasons = []
    for name in names:
        found = probe(parse(name))
        if not isinstance(found, Availability):
            return found
        reasons.append(f"{name}: {found.reason}")
    raise BackendUnavailableError("no backend works here: " + "; ".join(reasons))


def _warn_once(name: str, fallback: str, message: str) -> None:
    with _lock:
        if (name, fallback) in _warned:
            return
        _warned.add((name, fallback))
    warn_caller(f"{message} Computing on {fallback!r} instead.", BackendFallbackWarning)
