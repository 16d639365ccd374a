"""The columns of a sample, sorted once for all folds.

The training rows of a fold are some of the sorted rows: to leave the others out of the lists takes one pass,
where to sort them takes many. Equal values keep their order, so that the lists are exactly those that the
fold would have made by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from arraylearn._typing import Array
from arraylearn.backend.arrays.blocks import split_lists
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.namespace import Place, from_host
from arraylearn.selection.folds import Sample
from arraylearn.tree.rows import Rows, prepare_rows

__all__ = ["SharedOrder", "sort_sample"]

Host = Any  # a NumPy array


class SharedOrder(NamedTuple):
    """The sorted columns of all rows."""

    place: Place
    lists: (
        Array  # int32 (d, n): rows of each column in ascending order, by their number among the rows by class
    )
    number: Host  # (n,): that number of each row of the sample
    dtype: Any

    def of_fold(self, train: Host, rows: Rows) -> Array | None:
        """Return the lists of the rows that a tree was given from the rows `train`; None if they differ."""
        xp = self.place.xp
        number = self.number.take(train).take(rows.order)
        is_same = rows.columns.shape[0] == self.lists.shape[0] and rows.columns.dtype == self.dtype
        if not is_same or not (number[1:] > number[:-1]).all():
            return None
        branch = np.full(self.number.shape[0], -1, dtype="int32")
        branch[number] = 0
        new_number = np.cumulative_sum(branch + 1) - 1
        kept = split_lists(xp, self.lists, from_host(branch, self.place), [number.shape[0]])
        renumbered = xp.take(from_host(new_number, self.place, xp.int32), xp.reshape(kept, (-1,)), axis=0)
        return xp.reshape(renumbered, kept.shape)


def sort_sample(estimator: Any, sample: Sample) -> SharedOrder | None:
    """Sort the columns of a sample as a tree would; None if it has none, or if `fit` should speak."""
    try:
        batch, labels = clone(estimator)._open_fit(sample.X, sample.y)
    except (TypeError, ValueError):
        return None
    table, place = batch.table, batch.place
    if table.numeric.shape[1] == 0:
        return None
    rows = prepare_rows(place, table, labels.codes, int(labels.classes.shape[0]), None)
    lists = place.xp.astype(argsort_rows(place.xp, rows.columns), place.xp.int32)
    number = np.empty(sample.n_rows, dtype="int64")
    number[rows.order] = np.arange(sample.n_rows)
    return SharedOrder(place, lists, number, rows.columns.dtype)
