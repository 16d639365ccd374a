"""Where the rows of a boosted tree end: blocks of their order, some of which are still to be divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn.grow.histograms.newton_trees import Columns
from arraylearn.grow.trees import Trees

__all__ = ["BlockSplits", "divide_as"]


class BlockSplits(NamedTuple):
    """Blocks of the order of the rows, and how each is split in two."""

    starts: Sequence[int]
    sizes: Sequence[int]
    features: Sequence[int]  # the column that splits each block
    thresholds: Sequence[int]  # rows with a larger bin go right; -1: by `goes_right`
    goes_right: Any | None  # (at most k, n_bins) bool, as many lines as have a -1; None where none has


def divide_as(columns: Columns, nodes: Trees, parents: Any) -> BlockSplits:
    """Describe how the rows of inner nodes are divided."""
    feature, low, sets = nodes.feature[parents], nodes.threshold[parents], None
    missing_right = nodes.default_branch[parents]
    if parents.shape[0] and (columns.missing or nodes.sets is not None):
        goes_right = np.arange(columns.n_bins) > low[:, None]
        goes_right[:, -1] = missing_right
        if nodes.sets is not None:
            is_nominal = feature >= columns.n_numeric
            goes_right[is_nominal] = nodes.sets[parents][is_nominal] > 0
        sets = goes_right
    return _describe(columns, nodes.rows[:, parents], feature, low, missing_right, sets)


def _describe(
    columns: Columns, rows: Any, feature: Any, low: Any, missing_right: Any, sets: Any | None
) -> BlockSplits:
    """Describe how blocks (2, k) of rows are divided: by a bin, or by sets (k, n_bins)."""
    if sets is not None:
        is_left = ~missing_right & np.isin(feature, columns.missing)
        low = np.where((feature < columns.n_numeric) & ~is_left, low, -1)
    starts, sizes = rows.tolist()
    return BlockSplits(starts, sizes, feature.tolist(), low.tolist(), sets)
