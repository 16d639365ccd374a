"""Hold rows back while a rule grows, and cut it where it does best on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend import ops
from arraylearn.backend.namespace import Place
from arraylearn.backend.random import RandomState, as_generator, permutation
from arraylearn.rules.candidates import Candidates, Pool, live_rows, restrict, satisfies
from arraylearn.rules.foil import Target
from arraylearn.rules.grow import Weight, weigh
from arraylearn.rules.rule import Condition

__all__ = ["Halves", "choose_length", "count_prefixes", "prune_rule", "split_pool"]

Conditions = tuple[Condition, ...]


class Halves(NamedTuple):
    """A pool cut in two: rules grow on the first part and are pruned on the second."""

    grow: Pool
    is_held: Array  # (n,) bool: the rows for pruning


def split_pool(place: Place, pool: Pool, target: Target, rng: RandomState, folds: int) -> Halves:
    """Draw one of `folds` parts for pruning, with its share of the positive rows; the host does not wait."""
    xp = place.xp
    order = permutation(place, as_generator(rng), pool.size)
    rows = xp.take(live_rows(xp, pool), order, axis=0)
    # positive rows first, then the others: every folds-th row is held back
    rows = ops.partition(xp, rows, xp.take(target.is_positive, rows, axis=0))[folds - 1 :: folds]
    n = pool.is_live.shape[0]
    is_held = ops.scatter(xp, xp.ones_like(rows), rows, n) > 0
    return Halves(restrict(xp, pool, ~is_held, pool.size - pool.size // folds), is_held)


def count_prefixes(
    xp: Namespace, candidates: Candidates, conditions: Conditions, target: Target, rows: Array
) -> list[Weight]:
    """Weigh what each prefix of a conjunction, the empty one first, covers of a mask (n,); the host waits."""
    masks = [rows]
    for condition in conditions:
        masks.append(masks[-1] & satisfies(xp, candidates, condition))
    return weigh(xp, target, masks)


def choose_length(counts: Sequence[Weight], *, smoothing: float, is_whole: bool) -> int:
    r"""Choose how many literals to keep.

    Parameters
    ----------
    counts : sequence of Weight
        What each prefix covers of the rows held back, from the empty one on.
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
    positive, total, _ = counts[0]
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
        value = worth(*counts[length][:2])
        if value > best_worth + 1e-12:
            best, best_worth = length, value
    return best


def prune_rule(
    xp: Namespace,
    candidates: Candidates,
    conditions: Conditions,
    target: Target,
    rows: Array,
    *,
    smoothing: float,
    is_whole: bool,
) -> Conditions:
    """Cut a rule to its best prefix on the rows held back; the host waits once."""
    if not conditions:
        return conditions
    counts = count_prefixes(xp, candidates, conditions, target, rows)
    return conditions[: choose_length(counts, smoothing=smoothing, is_whole=is_whole)]
