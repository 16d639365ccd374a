"""Hold rows back while a rule grows, and cut it where it does best on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.blocks import scatter
from arraylearn.backend.arrays.order import compress, partition
from arraylearn.backend.namespace import Place
from arraylearn.backend.random import RandomState, as_generator, permutation
from arraylearn.rules.candidates import Candidates, Target, satisfies
from arraylearn.rules.grow import Weight, weigh
from arraylearn.rules.pool import Pool, restrict
from arraylearn.rules.rule import Condition

__all__ = ["Halves", "choose_length", "count_prefixes", "prune_rule", "shuffle_rows", "split_pool"]

Conditions = tuple[Condition, ...]


class Halves(NamedTuple):
    """A pool cut in two: rules grow on the first part and are pruned on the second."""

    grow: Pool
    is_held: Array  # (n,) bool: the rows for pruning


def shuffle_rows(place: Place, target: Target, rng: RandomState) -> Array:
    """Draw an order of all rows (n,), then put the positive ones first."""
    order = permutation(place, as_generator(rng), target.is_positive.shape[0])
    return partition(place.xp, order, place.xp.take(target.is_positive, order, axis=0))


def split_pool(
    xp: Namespace, candidates: Candidates, pool: Pool, order: Array, at: int, folds: int
) -> Halves:
    """Hold one of `folds` parts back for pruning, with its share of the positive rows; without a wait.

    Parameters
    ----------
    candidates, pool : Candidates, Pool
        The table and the rows.
    order : int64 array (n,)
        From `shuffle_rows`.
    at : int
        Which of the parts is held back, modulo `folds`.
    folds : int
        Number of parts.

    Returns
    -------
    Halves
        The two parts.
    """
    rows = order
    if pool.size < order.shape[0]:
        rows = compress(xp, order, xp.take(pool.is_live, order, axis=0), pool.size)
    held = rows[at % folds :: folds]
    is_held = scatter(xp, xp.ones_like(held), held, pool.is_live.shape[0]) > 0
    return Halves(restrict(xp, candidates, pool, ~is_held, pool.size - held.shape[0]), is_held)


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
