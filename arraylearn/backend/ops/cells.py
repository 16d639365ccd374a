"""Count the values of many columns among some of the rows, again and again for other rows."""

from __future__ import annotations

from typing import Any

from arraylearn._typing import Array, Namespace
from arraylearn.backend.native import native
from arraylearn.backend.ops.segments import paired_histogram

__all__ = ["count_cells", "pack_cells"]


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
