"""Count the values of many columns among some of the rows, again and again for other rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import paired_histogram
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.native import native
from arraylearn.backend.ops.thresholds import first_best, pick_in_lines

__all__ = ["best_cells", "count_cells", "count_rows", "pack_cells"]


def pack_cells(xp: Namespace, cells: Array, n_cells: int) -> Any:
    """Prepare columns for `count_cells`: whatever the library counts fastest, or `cells` itself.

    Parameters
    ----------
    cells : int array (d, n)
        Column-major values in ``range(n_cells + 1)``; the last stands for what shall not be counted.
    n_cells : int
        Number of values.

    Returns
    -------
    object
        To be passed to `count_cells` of the same library.
    """
    if fast := native(xp, "pack_cells"):
        return fast(cells, n_cells)
    return cells


def count_cells(
    xp: Namespace, packed: Any, n_cells: int, is_live: Array, is_positive: Array, weights: Array | None = None
) -> tuple[Array, Array]:
    """Weigh the live rows, and the positive ones among them, by value.

    Parameters
    ----------
    packed : object
        From `pack_cells`: d columns of n rows.
    n_cells : int
        Number of values.
    is_live, is_positive : bool array (n,)
        Which rows count, and which of them are positive.
    weights : float array (n,), optional
        Weight of each row; default: every row counts 1.

    Returns
    -------
    positive, covered : arrays (d, n_cells)
        Weight of the positive live rows and of all live rows of each value, in the dtype of `histogram`.
    """
    if fast := native(xp, "count_cells"):
        positive, covered = fast(packed, n_cells, is_live, is_positive, weights)
        return positive, covered
    keys = xp.where(is_live, xp.astype(is_positive, xp.int64), 2)
    counts = paired_histogram(xp, packed, keys, n_cells + 1, 3, weights)[:, :2, :n_cells]
    return counts[:, 1, :], counts[:, 0, :] + counts[:, 1, :]


def best_cells(
    xp: Namespace,
    packed: Any,
    n_cells: int,
    is_live: Array,
    is_positive: Array,
    weights: Array | None,
    score: Callable[[Array, Array], Array],
) -> Array:
    """Find the value of each column that scores best among the live rows.

    Parameters
    ----------
    packed, n_cells, is_live, is_positive, weights
        As in `count_cells`.
    score : callable
        ``score(p, covered)`` of weights of `count_cells` in the accumulator's dtype, of any shape; values
        that may not be chosen score ``-inf``.

    Returns
    -------
    array (4, d)
        Score, p, covered and the value itself, of the best value of each column, in the accumulator's dtype.
        Near equals: the largest coverage, then the first value. A column that is not among the best may
        report the score ``-inf``.
    """
    if fast := native(xp, "best_cells"):
        return fast(packed, n_cells, is_live, is_positive, weights, score)
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(is_live)))
    p, covered = count_cells(xp, packed, n_cells, is_live, is_positive, weights)
    p, covered = xp.astype(p, dtype), xp.astype(covered, dtype)
    scores = score(p, covered)
    best = first_best(xp, scores, covered)
    return xp.stack((*pick_in_lines(xp, best, scores, p, covered), xp.astype(best, dtype)))


def count_rows(xp: Namespace, masks: Sequence[Array], is_positive: Array) -> Array:
    """Count the positive rows and all rows of several masks.

    Parameters
    ----------
    masks : sequence of bool arrays (n,)
        Which rows to count; at least one mask.
    is_positive : bool array (n,)
        Which rows are positive.

    Returns
    -------
    int64 array (len(masks), 2)
        Numbers of positive rows and of all rows.
    """
    if fast := native(xp, "count_rows"):
        return fast(masks, is_positive)
    stacked = xp.stack(list(masks))
    sides = xp.stack((stacked & is_positive[None, :], stacked), axis=1)
    return xp.sum(xp.astype(sides, xp.int64), axis=2)
