"""Hold rows back while a rule grows, and cut it where it does best on them."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend import ops
from arraylearn.backend.namespace import Place, to_host
from arraylearn.backend.random import RandomState, as_generator, permutation
from arraylearn.rules.candidates import Candidates, Pool, restrict, satisfies
from arraylearn.rules.foil import Target
from arraylearn.rules.rule import Condition

__all__ = ["Halves", "choose_length", "count_prefixes", "prune_rule", "split_pool"]


class Halves(NamedTuple):
    """A pool cut in two: rules grow on the first part and are pruned on the second."""

    grow: Pool
    prune_rows: Array  # (m // folds,)


def split_pool(place: Place, pool: Pool, target: Target, n_rows: int, rng: RandomState, folds: int) -> Halves:
    """Draw one of `folds` parts for pruning, with its share of the positive rows; the host does not wait."""
    xp = place.xp
    order = permutation(place, as_generator(rng), pool.size)
    rows = xp.take(pool.rows, order, axis=0)
    is_positive = xp.take(target.is_positive, rows, axis=0)
    rank = xp.cumulative_sum(is_positive)
    position = xp.arange(pool.size, dtype=xp.int64, device=place.device)
    # positive rows first, then the others: every folds-th row is held back
    rank = xp.where(is_positive > 0, rank - 1, rank[-1:] + position - rank)
    is_held = rank % folds == folds - 1
    size = pool.size // folds
    keep = ops.scatter(xp, xp.astype(~is_held, xp.int64), rows, n_rows) > 0
    return Halves(restrict(xp, pool, keep, pool.size - size), ops.compress(xp, rows, is_held, size))


def count_prefixes(
    xp: Namespace, candidates: Candidates, conditions: tuple[Condition, ...], target: Target, rows: Array
) -> Array:
    """Weigh what each prefix of a conjunction covers of some rows.

    Returns
    -------
    array (1 + len(conditions), 2)
        Weight of the positive rows and of all rows, from the empty prefix on.
    """
    everything = xp.ones((1, rows.shape[0]), dtype=xp.int64, device=array_api_compat.device(rows))
    met = [everything]
    met += [
        xp.astype(xp.take(satisfies(xp, candidates, one), rows, axis=0), xp.int64)[None, :]
        for one in conditions
    ]
    is_covered = xp.cumulative_prod(xp.concat(met, axis=0), axis=0)
    is_positive = xp.take(target.is_positive, rows, axis=0)
    if target.weights is None:
        return xp.stack((xp.sum(is_covered * is_positive, axis=1), xp.sum(is_covered, axis=1)), axis=1)
    weights = xp.take(target.weights, rows, axis=0)
    covered = xp.astype(is_covered, weights.dtype) * weights
    positive = covered * xp.astype(is_positive, weights.dtype)
    return xp.stack((xp.sum(positive, axis=1), xp.sum(covered, axis=1)), axis=1)


def choose_length(counts: list[list[float]], *, smoothing: float, is_whole: bool) -> int:
    r"""Choose how many literals to keep.

    Parameters
    ----------
    counts : list of [p, p + n]
        Weights that each prefix covers of the rows held back, from the empty one on.
    smoothing : float
        The :math:`s` below.
    is_whole : bool
        Whether to judge by the accuracy on all the rows (where other rules are there to take the rest),
        instead of :math:`(p - n) / (p + n + 2 s)` on the covered ones.

    Returns
    -------
    int
        Length of the best prefix, the shortest of equals.
    """
    positive, total = counts[0]
    if total <= 0:
        return len(counts) - 1

    def worth(p: float, covered: float) -> float:
        if is_whole:
            return (p + (total - positive) - (covered - p)) / total
        return (2 * p - covered) / (covered + 2 * smoothing) if covered + smoothing > 0 else -1.0

    # the empty rule is judged by its share of positive rows in both cases, as in Weka's JRip
    start = (positive + smoothing) / (total + 2 * smoothing)
    best, best_worth = 0, start if is_whole else 2 * start - 1
    for length in range(1, len(counts)):
        value = worth(*counts[length])
        if value > best_worth + 1e-12:
            best, best_worth = length, value
    return best


def prune_rule(
    xp: Namespace,
    candidates: Candidates,
    conditions: tuple[Condition, ...],
    target: Target,
    rows: Array,
    *,
    smoothing: float,
    is_whole: bool,
) -> tuple[Condition, ...]:
    """Cut a rule to its best prefix on the rows held back; the host waits once."""
    if not conditions or rows.shape[0] == 0:
        return conditions
    counts = to_host(count_prefixes(xp, candidates, conditions, target, rows)).tolist()
    return conditions[: choose_length(counts, smoothing=smoothing, is_whole=is_whole)]
