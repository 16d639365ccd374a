"""Hold rows back while a rule grows, and cut it to the prefix that does best on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.order import compress
from arraylearn.backend.arrays.segments import scatter
from arraylearn.backend.namespace import Place
from arraylearn.backend.random import RandomState, as_generator, permutation
from arraylearn.rules.literals.candidates import Candidates, satisfies
from arraylearn.rules.literals.live_rows import LiveRows, restrict
from arraylearn.rules.literals.target import Counts, Target, weigh
from arraylearn.rules.rule import Conditions

__all__ = ["Parts", "choose_length", "count_prefixes", "hold_back", "prune_rule", "shuffle_rows"]


class Parts(NamedTuple):
    """Live rows in two parts."""

    growing: LiveRows  # rules grow on these
    is_held: Array  # (n,) bool: rules are pruned on these


def shuffle_rows(place: Place, target: Target, rng: RandomState) -> Array:
    """Draw an order of all rows (n,), then put the positive ones first."""
    xp, order = place.xp, permutation(place, as_generator(rng), target.is_positive.shape[0])
    is_negative = ~xp.take(target.is_positive, order, axis=0)
    return xp.take(order, xp.argsort(xp.astype(is_negative, xp.int8), stable=True), axis=0)


def hold_back(
    xp: Namespace, candidates: Candidates, live: LiveRows, order: Array, at: int, folds: int
) -> Parts:
    """Hold one of `folds` parts back for pruning, with its share of the positive rows; no sync.

    Parameters
    ----------
    candidates, live : Candidates, LiveRows
        The table and the rows.
    order : int64 array (n,)
        From `shuffle_rows`.
    at : int
        Which of the parts is held back, modulo `folds`.
    folds : int
        Number of parts.

    Returns
    -------
    Parts
        The rows to grow on, and the mask of those held back.
    """
    rows = order
    if live.size < order.shape[0]:
        rows = compress(xp, order, xp.take(live.is_live, order, axis=0), live.size)
    held = rows[at % folds :: folds]
    is_held = scatter(xp, xp.ones_like(held), held, live.is_live.shape[0]) > 0
    return Parts(restrict(xp, candidates, live, ~is_held, live.size - held.shape[0]), is_held)


def count_prefixes(
    xp: Namespace, candidates: Candidates, conditions: Conditions, target: Target, rows: Array
) -> list[Counts]:
    """Weigh what each prefix of a conjunction, the empty one first, covers of a mask (n,); one sync."""
    masks = [rows]
    for condition in conditions:
        masks.append(masks[-1] & satisfies(xp, candidates, condition))
    return [weight.counts for weight in weigh(xp, target, masks)]


def choose_length(counts: Sequence[Counts], *, smoothing: float, on_all_rows: bool) -> int:
    r"""Choose how many literals to keep.

    Parameters
    ----------
    counts : sequence of Counts
        What each prefix covers of the rows held back, from the empty one on.
    smoothing : float
        The :math:`s` below.
    on_all_rows : bool
        Whether to judge by the accuracy on all the rows, those that the rule does not cover counting as
        negative, instead of :math:`(p - n) / (p + n + 2 s)` on the covered ones.

    Returns
    -------
    int
        Length of the best prefix; of equal ones the shortest.
    """
    positive, total = counts[0]
    if total <= 0:
        return len(counts) - 1

    def worth(p: float, covered: float) -> float:
        if on_all_rows:
            return (p + (total - positive) - (covered - p)) / total
        return (2 * p - covered) / (covered + 2 * smoothing) if covered + smoothing > 0 else -1.0

    # the empty rule is judged by its share of positive rows in both cases, as in Weka's JRip
    start = (positive + smoothing) / (total + 2 * smoothing)
    best, best_worth = 0, start if on_all_rows else 2 * start - 1
    for length in range(1, len(counts)):
        value = worth(*counts[length])
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
    on_all_rows: bool,
) -> Conditions:
    """Cut a rule to its best prefix on the rows held back; one sync."""
    if not conditions:
        return conditions
    counts = count_prefixes(xp, candidates, conditions, target, rows)
    return conditions[: choose_length(counts, smoothing=smoothing, on_all_rows=on_all_rows)]
