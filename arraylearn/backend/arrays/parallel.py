"""How the host's threads are used: pieces of work side by side, and small matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from arraylearn._typing import Namespace
from arraylearn.backend.native import native

__all__ = ["map_apart", "small_products"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_apart(xp: Namespace, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply `function`, which computes with arrays of `xp` and changes nothing else, to each item.

    NumPy's body uses our threads; the other libraries bring threads or streams of their own, which get the
    items one after the other. Results keep their order.
    """
    if fast := native(xp, "map_apart"):
        results: list[Result] = fast(function, items)
        return results
    return [function(item) for item in items]


def small_products(xp: Namespace) -> AbstractContextManager[None]:
    """Mark a block whose matrix products are too small to be shared among threads of the BLAS."""
    if fast := native(xp, "small_products"):
        inside: AbstractContextManager[None] = fast()
        return inside
    return nullcontext()
