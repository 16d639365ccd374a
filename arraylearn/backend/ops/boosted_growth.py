"""Boosted trees: all trees of a round from their roots on in one call, where a library can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.scratch import KeptBuffers
from arraylearn.backend.native import native

__all__ = ["BoostedColumns", "BoostedNodes", "BoostedRules", "grow_boosted_trees"]


class BoostedColumns(NamedTuple):
    """Binned training columns, all numeric."""

    bins: Array  # (d, n) uint8
    cells: Array  # of `histogram_cells`
    n_bins: int  # the last bin is that of missing values
    missing: Sequence[int]  # the columns that have some
    buffers: KeptBuffers  # of a body, from round to round


class BoostedRules(NamedTuple):
    """What stops a tree."""

    max_depth: int | None
    l2: float
    min_child_hessian: float
    min_samples_leaf: float  # rows of average hessian


class BoostedNodes(NamedTuple):
    """The nodes of a tree on the host, parents before their children, siblings side by side."""

    # (7, m) int64: column, threshold, whether missing values go right, left child, parent, first position of
    # the rows in `order`, and how many they are; -1 where there is no such thing, as the rows of nodes at the
    # greatest depth, which are not sorted any more
    whole: Any
    real: Any  # (3, m) float64: gain of the split, hessian, and what the score should change by
    order: Array  # row ids, until the next tree is asked for


def grow_boosted_trees(
    xp: Namespace,
    columns: BoostedColumns,
    packed: Array,
    shifts: Array,
    rows: Array,
    units: Array,
    is_used: Sequence[Array | None],
    rules: BoostedRules,
) -> Iterator[BoostedNodes] | None:
    """Grow a tree for each line of gradients, without a stop at each level.

    Parameters
    ----------
    columns : BoostedColumns
        What is split.
    packed, shifts : arrays (k, n), (k,)
        Of `log_loss_gradients`.
    rows : int64 array (m,)
        The rows to grow on, ascending.
    units : float32 array (33, 3)
        What `best_splits` calls `regular`, for each shift.
    is_used : k bool arrays (d,) or None
        The columns that each tree may split.
    rules : BoostedRules
        What stops the trees.

    Returns
    -------
    iterator of BoostedNodes, or None
        One tree after the other: what `block_histograms`, `best_splits` and `split_blocks` make, level by
        level. None where the library has nothing better than those: the caller takes the levels.
    """
    fast = native(xp, "grow_boosted_trees")
    grown: Iterator[BoostedNodes] | None = fast and fast(
        *columns, packed, shifts, rows, units, is_used, rules, BoostedNodes
    )
    return grown
