"""Columns sorted once for all rounds of AdaBoost, which differ only in the weights of the rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.namespace import locate
from arraylearn.grow.rows import Rows
from arraylearn.tree import DecisionTreeClassifier

__all__ = ["SortedOnce", "fit_sorted"]


class SortedOnce:
    """The stable order of the columns, found in the first round and reused while the rows are the same."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._order: Array | None = None

    def __call__(self, rows: Rows) -> Array:
        """Return the order (d, n); sort again if rows have lost all their weight, or have some again."""
        before = self._rows
        if before is None or self._order is None or not _are_same(before, rows):
            xp = locate(rows.columns).xp
            self._rows, self._order = rows, xp.astype(argsort_rows(xp, rows.columns), xp.int32)
        return self._order


def _are_same(one: Rows, other: Rows) -> bool:
    """Whether the rows of one table are numbered alike."""
    return bool(one.order.shape == other.order.shape and np.all(one.order == other.order))


def fit_sorted(estimator: Any, X: Any, codes: Any, weights: Any, order: SortedOnce) -> None:
    """Fit a classifier; a decision tree takes the order of its columns from `order` instead of sorting."""
    if type(estimator) is DecisionTreeClassifier:
        estimator._fit(X, codes, weights, None, partial(estimator._grow, find_order=order))
    else:
        estimator.fit(X, codes, sample_weight=weights)
