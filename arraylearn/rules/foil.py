"""How good a literal is, and the best of all literals: every attribute, value and threshold in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype
from arraylearn.backend.ops.cells import best_cells, count_cells
from arraylearn.backend.ops.thresholds import best_thresholds, first_best, pick_in_lines
from arraylearn.rules.candidates import Block, Candidates, Target
from arraylearn.rules.pool import Pool

__all__ = [
    "GAINS",
    "Gain",
    "accuracy_gain",
    "foil_gain",
    "mask_gain",
    "score_literals",
    "score_table",
    "slack_of",
    "smoothed_foil_gain",
]

Gain = Callable[[Namespace, Array, Array, float, float], Array]

# the rows of a summary
SCORE, POSITIVE, COVERED, LOW, HIGH, SIDE = range(6)
# sides
BELOW, ABOVE = range(2)


def foil_gain(xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float) -> Array:
    r"""Information that a literal gains on the positive rows it still covers.

    .. math:: p' \left(\log_2 \frac{p'}{p' + n'} - \log_2 \frac{p}{p + n}\right)

    Parameters
    ----------
    p, covered : float array (...)
        Weight of positive rows and of all rows that the rule covers with the literal.
    p_before, covered_before : float
        The same without it; both positive.

    Returns
    -------
    array (...)
        In bits; 0 where no positive row is left.

    References
    ----------
    J. R. Quinlan, "Learning logical definitions from relations", Machine Learning 5, 1990.

    Examples
    --------
    >>> import array_api_compat.numpy as xp
    >>> from arraylearn.rules.foil import foil_gain
    >>> foil_gain(xp, xp.asarray([6.0, 1.0]), xp.asarray([7.0, 1.0]), 7.0, 8.0).round(3).tolist()
    [-0.178, 0.193]
    """
    share = xp.where(p > 0, p, 1.0) / xp.where(p > 0, covered, 1.0)
    return p * (xp.log2(share) - math.log2(p_before / covered_before))


def smoothed_foil_gain(
    xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float
) -> Array:
    r"""FOIL's gain with one more positive row on both sides, as in Weka's JRip.

    .. math:: p' \left(\log_2 \frac{p' + 1}{p' + n' + 1} - \log_2 \frac{p + 1}{p + n + 1}\right)
    """
    base = math.log2((p_before + 1.0) / (covered_before + 1.0))
    return p * (xp.log2((p + 1.0) / (covered + 1.0)) - base)


def accuracy_gain(xp: Namespace, p: Array, covered: Array, p_before: float, covered_before: float) -> Array:
    r"""Accuracy of the rule with the literal, :math:`p' / (p' + n')`; what was before does not matter."""
    return p / xp.where(covered > 0, covered, 1.0)


GAINS: dict[str, Gain] = {
    "accuracy": accuracy_gain,
    "foil": foil_gain,
    "smoothed_foil": smoothed_foil_gain,
}


def score_literals(
    xp: Namespace,
    candidates: Candidates,
    pool: Pool,
    target: Target,
    gain: Gain,
    before: tuple[float, float],
    least: float,
) -> list[Array]:
    """Find the best literal of each column.

    Parameters
    ----------
    candidates, pool : Candidates, Pool
        The table and the rows that the rule covers so far.
    target : Target
        Which of them it shall cover.
    gain : Gain
        Score of a literal.
    before : (float, float)
        Weight of the positive rows and of all rows of the pool.
    least : float
        Least weight of positive rows that a literal must leave.

    Returns
    -------
    list of arrays (4, d) or (6, d)
        One per block and one for the sorted columns, in the order of ``candidates.idx``. For each column:
        score (``-inf``: no literal), weight of positive rows and of all rows left; then the category's code,
        or the two neighbouring numbers between which the threshold lies and the side (0 "<=", 1 ">"). Ties go
        to coverage, then to the first.
    """
    parts = [
        _score_block(xp, block, pool.is_live, target, gain, before, least) for block in candidates.blocks
    ]
    if pool.lists.shape[0]:
        parts.append(_score_sorted(xp, candidates, pool, target, gain, before, least))
    return parts


def _score_block(
    xp: Namespace,
    block: Block,
    is_live: Array,
    target: Target,
    gain: Gain,
    before: tuple[float, float],
    least: float,
) -> Array:
    """Find the best value or threshold of columns that are counted by value."""
    columns = (xp, block.packed, block.n_cells, is_live, target.is_positive, target.weights)
    if block.values is None:
        return best_cells(*columns, lambda p, covered: mask_gain(xp, gain, p, covered, before, least))
    return score_table(xp, block, *count_cells(*columns), gain, before, least)


def score_table(
    xp: Namespace,
    block: Block,
    p: Array,
    covered: Array,
    gain: Gain,
    before: tuple[float, float],
    least: float,
) -> Array:
    """Find the best value or threshold given the weights (d, n_cells) of positive rows and of all rows."""
    place = Place(xp, array_api_compat.device(p))
    n_cells, dtype = block.n_cells, accumulator_dtype(place)

    def score(p: Array, covered: Array) -> Array:
        return mask_gain(xp, gain, p, covered, before, least)

    if block.values is None:
        p, covered = xp.astype(p, dtype), xp.astype(covered, dtype)
        scores = score(p, covered)
        best = first_best(xp, scores, covered)
        return _lines(xp, *pick_in_lines(xp, best, scores, p, covered), xp.astype(best, dtype))
    is_present = covered > 0
    p_side, c_side = _both_sides(xp, p, dtype), _both_sides(xp, covered, dtype)
    scores = xp.where(xp.concat((is_present, is_present), axis=1), score(p_side, c_side), -math.inf)
    best = first_best(xp, scores, c_side)
    found = pick_in_lines(xp, best, scores, p_side, c_side)
    cell = best % n_cells
    position = xp.arange(n_cells, dtype=xp.int64, device=place.device)
    after = xp.argmax(xp.astype(is_present & (position > cell[:, None]), xp.int8), axis=1)
    neighbours = [pick_in_lines(xp, one, block.values)[0] for one in (cell, after)]
    others = [xp.astype(one, dtype) for one in (*neighbours, BELOW + best // n_cells)]
    return _lines(xp, *found, *others)


def _score_sorted(
    xp: Namespace,
    candidates: Candidates,
    pool: Pool,
    target: Target,
    gain: Gain,
    before: tuple[float, float],
    least: float,
) -> Array:
    """Find the best threshold of the columns that are kept sorted."""
    d, m = pool.lists.shape
    device = array_api_compat.device(pool.is_live)

    def score(p: Array, covered: Array) -> Array:
        return mask_gain(xp, gain, p, covered, before, least)

    best, p, covered, position = best_thresholds(
        xp, pool.lists, candidates.ranks, target.is_positive, target.weights, score
    )
    is_above = position >= m
    at = xp.where(is_above, position - m, position)
    line = xp.arange(d, dtype=xp.int64, device=device)
    lists = xp.reshape(pool.lists, (-1,))
    n = candidates.n_rows
    column = n * xp.asarray(candidates.sorted_idx, dtype=xp.int64, device=device)
    numbers = xp.reshape(candidates.columns, (-1,))
    neighbours = []
    for place in (at, xp.where(at < m - 1, at + 1, at)):
        row = xp.astype(xp.take(lists, line * m + place, axis=0), xp.int64)
        neighbours.append(xp.take(numbers, column + row, axis=0))
    side = BELOW + (ABOVE - BELOW) * xp.astype(is_above, xp.int64)
    return _lines(xp, *(xp.astype(one, best.dtype) for one in (best, p, covered, *neighbours, side)))


def _lines(xp: Namespace, *lines: Array) -> Array:
    """Put (d,) arrays below one another; NumPy's stack takes four times as long."""
    return xp.reshape(xp.concat(lines), (len(lines), -1))


def _both_sides(xp: Namespace, values: Array, dtype: object) -> Array:
    """Sum (d, m) values up to each position, then beyond it: (d, 2 m)."""
    below = xp.cumulative_sum(values, axis=1)
    return xp.astype(xp.concat((below, below[:, -1:] - below), axis=1), dtype)


def slack_of(xp: Namespace, weights: Array, total: float) -> float:
    """Return what sums of float weights up to `total` may be wrong by."""
    return 1e-9 * total if xp.finfo(weights.dtype).eps < 1e-10 else 1e-5 * total


def mask_gain(
    xp: Namespace, gain: Gain, p: Array, covered: Array, before: tuple[float, float], least: float
) -> Array:
    """Score literals; ``-inf`` for one that leaves too few positive rows, or all rows."""
    p_before, c_before = before
    slack = slack_of(xp, p, c_before)
    score = gain(xp, p, covered, p_before, c_before)
    is_allowed = (p > max(slack, least - 2 * slack)) & (covered < c_before - slack)
    return xp.where(is_allowed, score, -math.inf)
