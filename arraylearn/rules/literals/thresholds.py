"""The best threshold of each sorted column, both sides of every cut scored at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype, library_name
from arraylearn.rules.literals.gains import Scoring
from arraylearn.rules.literals.target import Target

__all__ = ["best_thresholds", "both_sides", "choose_body", "first_best", "pick_in_lines"]


def choose_body(xp: Namespace) -> Callable[..., Any] | str:
    """Return NumPy's body of `best_thresholds`, or the reason why the array program serves."""
    if library_name(xp) != "numpy":
        return "not on a CPU of NumPy"
    from arraylearn.rules.literals import thresholds_cpu

    return thresholds_cpu.best_thresholds


def best_thresholds(
    xp: Namespace, lists: Array, ranks: Array, target: Target, scoring: Scoring
) -> tuple[Array, Array, Array, Array]:
    """Find the side of the cut of each column that scores best.

    Parameters
    ----------
    lists : int32 array (d, m)
        Some of the rows ``range(n)``, the same ones in each line, ordered by the column's value; missing ones
        last. m is at least 1.
    ranks : int32 array (d, n)
        Dense rank of each row's value; -1 where missing.
    target : Target
        Which rows to cover, and their weights.
    scoring : Scoring
        How sides are scored. A gain must not fall with p for the same ``covered - p``, nor rise with
        ``covered`` for the same p.

    Returns
    -------
    score, p, covered : arrays (d,)
        Of the best side of each column, in the accumulator's dtype; the score is ``-inf`` where no cut
        separates two values. Near equals: the largest coverage, then the first position. A column whose best
        side is bettered by another column's may report the score ``-inf``.
    position : int64 array (d,)
        i for the rows up to position i of the list, m + i for the rows beyond it.
    """
    body = choose_body(xp)
    if isinstance(body, str):
        return _search_all(xp, lists, ranks, target, scoring)
    found: tuple[Array, Array, Array, Array] = body(lists, ranks, target, scoring)
    return found


def _search_all(
    xp: Namespace, lists: Array, ranks: Array, target: Target, scoring: Scoring
) -> tuple[Array, Array, Array, Array]:
    """Score both sides of every position."""
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(lists)))
    d, m = lists.shape
    rows = xp.astype(lists, xp.int64)
    rank = xp.take_along_axis(ranks, rows, axis=1)
    flat = xp.reshape(rows, (-1,))
    covered = xp.astype(rank >= 0, xp.int64)
    p = covered * xp.astype(xp.reshape(xp.take(target.is_positive, flat, axis=0), (d, m)), xp.int64)
    if target.weights is not None:
        weight = xp.reshape(xp.take(target.weights, flat, axis=0), (d, m))
        p, covered = weight * xp.astype(p, dtype), weight * xp.astype(covered, dtype)
    p_side, c_side = both_sides(xp, p, dtype), both_sides(xp, covered, dtype)
    is_cut = xp.concat((rank[:, :-1] != rank[:, 1:], rank[:, :1] < rank[:, :1]), axis=1) & (rank >= 0)
    # the step from the last value to the missing ones cuts nothing off
    is_cut = is_cut & xp.concat((rank[:, 1:] >= 0, is_cut[:, :1]), axis=1)
    scores = xp.where(xp.concat((is_cut, is_cut), axis=1), scoring.score(xp, p_side, c_side), -math.inf)
    best = first_best(xp, scores, c_side)
    top, p, covered = pick_in_lines(xp, best, scores, p_side, c_side)
    return top, p, covered, best


def both_sides(xp: Namespace, values: Array, dtype: object) -> Array:
    """Sum (d, m) values up to each position, then beyond it: (d, 2 m)."""
    below = xp.cumulative_sum(values, axis=1)
    return xp.astype(xp.concat((below, below[:, -1:] - below), axis=1), dtype)


def first_best(xp: Namespace, scores: Array, covered: Array) -> Array:
    """Return the position (d,) of the best of scores (d, m); near equals: most coverage, then the first."""
    top = xp.max(scores, axis=1, keepdims=True)
    tolerance = 64 * float(xp.finfo(scores.dtype).eps)
    is_tied = scores >= top - tolerance * xp.abs(top)
    return xp.argmax(xp.where(is_tied, covered, -1.0), axis=1)


def pick_in_lines(xp: Namespace, positions: Array, *blocks: Array) -> list[Array]:
    """Take the entry at ``positions[j]`` of line j of each block (d, m)."""
    d, m = blocks[0].shape
    flat = positions + m * xp.arange(d, dtype=positions.dtype, device=array_api_compat.device(positions))
    return [xp.take(xp.reshape(block, (-1,)), flat, axis=0) for block in blocks]
