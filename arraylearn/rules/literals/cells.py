"""Count the values of columns among the live rows, and find the value of each column that scores best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import paired_histogram
from arraylearn.backend.namespace import Place, accumulator_dtype, library_name
from arraylearn.rules.literals.gains import Scoring
from arraylearn.rules.literals.target import Target
from arraylearn.rules.literals.thresholds import first_best, pick_in_lines

__all__ = ["best_cells", "best_counts", "choose_body", "count_cells", "pack_cells", "stack_rows"]


def choose_body(xp: Namespace, name: str) -> Callable[..., Any] | str:
    """Return NumPy's body of a function of this module, or the reason why the array program serves."""
    if library_name(xp) != "numpy":
        return "not on a CPU of NumPy"
    from arraylearn.rules.literals import cells_cpu

    body: Callable[..., Any] = getattr(cells_cpu, name)
    return body


def pack_cells(xp: Namespace, cells: Array, n_cells: int) -> Any:
    """Prepare columns for `count_cells`: whatever the body counts fastest, or `cells` itself.

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
    body = choose_body(xp, "pack_cells")
    return cells if isinstance(body, str) else body(cells, n_cells)


def count_cells(
    xp: Namespace, packed: Any, n_cells: int, is_live: Array, target: Target
) -> tuple[Array, Array]:
    """Weigh the live rows, and the positive ones among them, by value.

    Parameters
    ----------
    packed : object
        From `pack_cells`: d columns of n rows.
    n_cells : int
        Number of values.
    is_live : bool array (n,)
        Which rows count.
    target : Target
        Which of them are positive, and their weights.

    Returns
    -------
    positive, covered : arrays (d, n_cells)
        Weight of the positive live rows and of all live rows of each value, in the dtype of `histogram`.
    """
    body = choose_body(xp, "count_cells")
    if not isinstance(body, str):
        counted: tuple[Array, Array] = body(packed, n_cells, is_live, target)
        return counted
    keys = xp.where(is_live, xp.astype(target.is_positive, xp.int64), 2)
    counts = paired_histogram(xp, packed, keys, n_cells + 1, 3, target.weights)[:, :2, :n_cells]
    return counts[:, 1, :], counts[:, 0, :] + counts[:, 1, :]


def best_cells(
    xp: Namespace, packed: Any, n_cells: int, is_live: Array, target: Target, scoring: Scoring
) -> Array:
    """Find the value of each column that scores best among the live rows.

    Parameters
    ----------
    packed, n_cells, is_live, target
        As in `count_cells`.
    scoring : Scoring
        How literals are scored.

    Returns
    -------
    array (4, d)
        Score, p, covered and the value itself, of the best value of each column, in the accumulator's dtype.
        Near equals: the largest coverage, then the first value. A column that is not among the best may
        report the score ``-inf``.
    """
    body = choose_body(xp, "best_cells")
    if not isinstance(body, str):
        return body(packed, n_cells, is_live, target, scoring)
    return best_counts(xp, *count_cells(xp, packed, n_cells, is_live, target), scoring)


def best_counts(xp: Namespace, p: Array, covered: Array, scoring: Scoring) -> Array:
    """Find the same, given the weights (d, n_cells) of the positive rows and of all rows."""
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(p)))
    p, covered = xp.astype(p, dtype), xp.astype(covered, dtype)
    scores = scoring.score(xp, p, covered)
    best = first_best(xp, scores, covered)
    return stack_rows(xp, *pick_in_lines(xp, best, scores, p, covered), xp.astype(best, dtype))


def stack_rows(xp: Namespace, *rows: Array) -> Array:
    """Stack (d,) arrays; NumPy's own stack takes four times as long."""
    return xp.reshape(xp.concat(rows), (len(rows), -1))
