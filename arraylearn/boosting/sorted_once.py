"""The columns of the training rows sorted once for all rounds, which differ in the weights of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.namespace import locate
from arraylearn.tree import DecisionTreeClassifier
from arraylearn.tree.rows import Rows

__all__ = ["SortedOnce", "known_order"]


class SortedOnce:
    """Knows the stable order of the columns of rows that are the same ones every time."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._order: Array | None = None

    def __call__(self, rows: Rows) -> Array:
        """Return the order (d, n); it is found anew where rows have lost all weight or come back."""
        before = self._rows
        if before is None or self._order is None or not _are_same(before, rows):
            xp = locate(rows.columns).xp
            self._rows, self._order = rows, xp.astype(argsort_rows(xp, rows.columns), xp.int32)
        return self._order


def _are_same(one: Rows, other: Rows) -> bool:
    """Whether the rows of one table are numbered alike."""
    return bool(one.order.shape == other.order.shape and np.all(one.order == other.order))


@contextmanager
def known_order(estimator: Any, order: SortedOnce) -> Iterator[None]:
    """Inside, a tree asks `order` rather than sort its columns; of other classifiers nothing is known."""
    if not isinstance(estimator, DecisionTreeClassifier):
        yield
        return
    estimator._find_order = order  # type: ignore[method-assign]
    try:
        yield
    finally:
        del estimator.__dict__["_find_order"]
