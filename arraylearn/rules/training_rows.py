"""The training rows of the rule learners, and the class of the rows that no rule covers."""

from __future__ import annotations

from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.estimator import Batch
from arraylearn.table import Table
from arraylearn.weights import read_weights

__all__ = ["TrainingRows", "default_class", "gather_rows"]


class TrainingRows(NamedTuple):
    """Training rows at the place where they are learned from; rows of weight 0 are left out."""

    place: Place
    table: Table
    codes: Array  # (n,) int64: the class of each row
    weights: Array | None  # (n,); None: every row counts 1
    class_weights: list[float]  # (k,) weight of the rows of each class


def gather_rows(batch: Batch, host_codes: Any, n_classes: int, sample_weight: Any) -> TrainingRows:
    """Put together what is learned from, without the rows of weight 0."""
    place, table = batch.place, batch.table
    xp = place.xp
    weights = read_weights(sample_weight, table.n_rows, place)
    codes = from_host(host_codes, place, xp.int64)
    if weights is not None:
        host_weights = to_host(weights)
        if (host_weights == 0).any():
            idx = from_host(host_weights.nonzero()[0], place, xp.int64)
            weights, codes = xp.take(weights, idx, axis=0), xp.take(codes, idx, axis=0)
            table = Table(
                xp.take(table.numeric, idx, axis=0), xp.take(table.codes, idx, axis=1), table.schema
            )
    class_weights = to_host(histogram(xp, codes, n_classes, weights)).tolist()
    return TrainingRows(place, table, codes, weights, [float(one) for one in class_weights])


def default_class(rows: TrainingRows, is_covered: Array) -> int:
    """Return the heaviest class of the uncovered rows, of all rows where there are none; one sync."""
    xp = rows.place.xp
    classes = xp.arange(len(rows.class_weights), dtype=rows.codes.dtype, device=rows.place.device)
    is_class = (rows.codes[:, None] == classes[None, :]) & ~is_covered[:, None]
    if rows.weights is None:
        sums = xp.sum(xp.astype(is_class, xp.int64), axis=0)
    else:
        sums = xp.sum(xp.astype(is_class, rows.weights.dtype) * rows.weights[:, None], axis=0)
    left: list[float] = to_host(sums).tolist()
    if max(left) <= 0:
        left = rows.class_weights
    return left.index(max(left))
