"""The columns of a sample, sorted once for all folds.

The sorted list of a fold's training rows is the list of all rows without its test rows, which takes one pass
where sorting takes many. Equal values keep their order, so the lists are exactly those of sorting the fold::

    column      4.0  1.0  3.0  1.0  2.0        rows 0 .. 4
    all rows      1    3    4    2    0        row numbers, ascending by value
    without 2     1    3    4    0             a fold that is tested on row 2
    renumbered    1    2    3    0             by position among the training rows 0 1 3 4
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from arraylearn._typing import Array, Dtype, HostArray
from arraylearn.backend.arrays.order import argsort_rows
from arraylearn.backend.arrays.segments import LEFT_OUT, split_lists
from arraylearn.backend.namespace import Place, from_host
from arraylearn.folds import LabelledRows
from arraylearn.grow.rows import Rows, prepare_rows

__all__ = ["SharedOrder", "sort_sample"]

_KEPT = 0  # the branch of the training rows; the others are LEFT_OUT


class SharedOrder(NamedTuple):
    """The sorted columns of all rows; rows are numbered in the order of `arraylearn.grow.rows.Rows`."""

    place: Place
    lists: Array  # int32 (d, n): the row numbers of each column, ascending by value
    number: HostArray  # (n,): the number of each row of the sample
    dtype: Dtype  # of the columns

    def of_fold(self, train: HostArray, rows: Rows) -> Array | None:
        """Return the lists of the rows `train` of the sample, from which `rows` was made; None: sort anew."""
        assert rows.order is not None
        xp = self.place.xp
        number = self.number.take(train).take(rows.order)
        is_same = rows.columns.shape[0] == self.lists.shape[0] and rows.columns.dtype == self.dtype
        if not is_same or not (number[1:] > number[:-1]).all():
            return None
        branch = np.full(self.number.shape[0], LEFT_OUT, dtype="int32")
        branch[number] = _KEPT
        new_number = np.cumulative_sum((branch == _KEPT).astype("int64")) - 1
        kept = split_lists(xp, self.lists, from_host(branch, self.place), [number.shape[0]])
        renumbered = xp.take(from_host(new_number, self.place, xp.int32), xp.reshape(kept, (-1,)), axis=0)
        return xp.reshape(renumbered, kept.shape)


def sort_sample(estimator: Any, sample: LabelledRows) -> SharedOrder | None:
    """Sort the numeric columns of a sample; None if there are none or the input is invalid."""
    try:
        batch, labels = clone(estimator)._open_fit(sample.X, sample.y)
    except (TypeError, ValueError):
        return None
    table, place = batch.table, batch.place
    if table.numeric.shape[1] == 0:
        return None
    rows = prepare_rows(place, table, labels.codes, int(labels.classes.shape[0]), None)
    lists = place.xp.astype(argsort_rows(place.xp, rows.columns), place.xp.int32)
    assert rows.order is not None
    number = np.empty(sample.n_rows, dtype="int64")
    number[rows.order] = np.arange(sample.n_rows)
    return SharedOrder(place, lists, number, rows.columns.dtype)
