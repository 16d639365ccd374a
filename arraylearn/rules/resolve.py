"""When several rules fire: the first, the strictest, or a vote; when none does: the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.rules.match import Matcher, compile_rules, fired, first_rule, match_rows
from arraylearn.rules.rule import CodedRule, Conditions
from arraylearn.table import Schema, Table

__all__ = [
    "CONFLICTS",
    "Conflict",
    "RuleModel",
    "class_weights_by_rule",
    "decide",
    "make_model",
    "order_rules",
    "weigh_matches",
]

Conflict = Literal["first", "strictest", "vote"]
CONFLICTS: tuple[Conflict, ...] = ("first", "strictest", "vote")


class RuleModel(NamedTuple):
    """A rule set as arrays; rules stand in the order in which they decide, the default last."""

    matcher: Matcher
    codes: Array  # (r + 1,) int64: the class of each rule
    probability: Array  # (r + 1, k): shares of the classes among the rows that it decides
    votes: Array  # (r, k): 1 for the rule's class
    prior: Array  # (k,)
    order: tuple[int, ...]  # position of each rule in ``rules_``; without the default
    is_vote: bool


def order_rules(rules: Sequence[Conditions], conflict: Conflict) -> tuple[int, ...]:
    """Return the order in which rules decide: as they stand, or those with most conditions first."""
    positions = range(len(rules))
    if conflict == "strictest":
        return tuple(sorted(positions, key=lambda i: -len(rules[i])))
    return tuple(positions)


def class_weights_by_rule(
    xp: Namespace, position: Array, codes: Array, n_rules: int, n_classes: int, weights: Array | None
) -> Array:
    """Weigh the classes (n_rules + 1, k) of the rows that each rule, and last the default, decides."""
    keys = position * n_classes + codes
    counts = histogram(xp, keys, (n_rules + 1) * n_classes, weights)
    return xp.reshape(counts, (n_rules + 1, n_classes))


def make_model(
    place: Place,
    rules: Sequence[CodedRule],
    default: int,
    schema: Schema,
    counts: list[list[float]],
    prior: list[float],
    conflict: Conflict,
) -> RuleModel:
    """Make the model of a rule set.

    Parameters
    ----------
    place : Place
        Where the model is put.
    rules : sequence of (conditions, class)
        In their own order.
    default : int
        The class where no rule fires.
    schema : Schema
        The columns.
    counts : (r + 1) x k numbers
        Weights of the classes among the rows that each rule decides, in the order of decision, then by none.
    prior : k numbers
        Weights of the classes.
    conflict : {"first", "strictest", "vote"}
        What decides where several rules fire.

    Returns
    -------
    RuleModel
        Probabilities carry a Laplace correction, and a rule's own class is never below another.
    """
    k = len(prior)
    order = order_rules([conditions for conditions, _ in rules], conflict)
    codes = [rules[i][1] for i in order]
    probability = [_shares(weights, code) for weights, code in zip(counts, [*codes, default], strict=True)]
    votes = [[1.0 if c == code else 0.0 for c in range(k)] for code in codes]
    dtype = accumulator_dtype(place)
    return RuleModel(
        compile_rules(place, [rules[i][0] for i in order], schema),
        from_host([*codes, default], place, place.xp.int64),
        from_host(probability, place, dtype),
        from_host(votes or [[0.0] * k], place, dtype)[: len(rules), :],
        from_host([one / sum(prior) for one in prior], place, dtype),
        order,
        conflict == "vote",
    )


def _shares(weights: list[float], code: int) -> list[float]:
    smoothed = [weight + 1.0 for weight in weights]
    smoothed[code] = max(smoothed)
    # the rule's own class wins a tie
    smoothed[code] *= 1.0 + 1e-6
    total = sum(smoothed)
    return [weight / total for weight in smoothed]


def decide(xp: Namespace, model: RuleModel, table: Table) -> tuple[Array, Array, Array]:
    """Decide the class of each row.

    Returns
    -------
    codes : int64 array (n,)
        The classes.
    probability : array (n, k)
        Shares of the classes among the training rows that the deciding rule decided; for a vote the shares of
        the votes, to which the prior adds at most half a vote, so that the more frequent class wins a tie.
    words : int64 array (n, n_words)
        The rules that fired, in the order of decision: see `match_rows`.
    """
    words = match_rows(xp, model.matcher, table)
    position = first_rule(xp, words, model.matcher.n_rules)
    probability = xp.take(model.probability, position, axis=0)
    if not model.is_vote:
        return xp.take(model.codes, position, axis=0), probability, words
    is_fired = xp.astype(fired(xp, words, model.matcher.n_rules), model.votes.dtype)
    votes = is_fired @ model.votes + 0.5 * model.prior
    votes = votes / xp.sum(votes, axis=1, keepdims=True)
    probability = xp.where((position < model.matcher.n_rules)[:, None], votes, probability)
    return xp.argmax(probability, axis=1), probability, words


def weigh_matches(
    xp: Namespace, words: Array, rule_codes: Array, codes: Array, weights: Array | None
) -> Array:
    """Weigh all rows that match each rule, and those of the rule's class among them.

    Parameters
    ----------
    words : int64 array (n, n_words)
        From `match_rows`.
    rule_codes : int64 array (r,)
        The class of each rule.
    codes : int64 array (n,)
        The class of each row.
    weights : array (n,), optional
        Weight of each row.

    Returns
    -------
    array (2, r)
        Weights of all rows, and of the right ones.
    """
    dtype = accumulator_dtype(Place(xp, array_api_compat.device(words)))
    r = rule_codes.shape[0]
    total = xp.zeros((2, r), dtype=dtype, device=array_api_compat.device(words))
    for rows in row_chunks(words.shape[0], 8 * 6 * r):
        is_fired = xp.astype(fired(xp, words[rows, :], r), dtype)
        if weights is not None:
            is_fired = is_fired * weights[rows][:, None]
        is_right = xp.astype(codes[rows][:, None] == rule_codes[None, :], dtype)
        total = total + xp.stack((xp.sum(is_fired, axis=0), xp.sum(is_fired * is_right, axis=0)))
    return total
