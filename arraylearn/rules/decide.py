"""Decide by rules: all of them are matched against all rows at once, then one rule or a vote decides.

A rule is one bit; each column has a table of bit masks, of the rules that a value of it allows. Where several
rules fire, the first, the strictest or a vote decides; where none does, the default.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Literal, NamedTuple

import array_api_compat
import array_api_extra as xpx

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.order import bin_columns
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.rules.rule import Conditions
from arraylearn.table import MISSING_CODE, Schema, Table

__all__ = [
    "CONFLICTS",
    "WORD",
    "Conflict",
    "Matcher",
    "RuleModel",
    "compile_rules",
    "decide",
    "fired",
    "first_rule",
    "make_model",
    "match_rows",
    "order_rules",
]

# Bits of an int64 that are used: the sign stays 0, so that ``word & -word`` is the lowest bit.
WORD = 62
# More edges than this do not fit the bins of `bin_columns`.
_MOST_EDGES = 32_000


class Matcher(NamedTuple):
    """A rule set as arrays: for each value of each column, the rules that a row with it may match.

    ::

        rules   bit 0: age <= 30    bit 1: age > 20 and hair = red    bit 2: hair = red
        masks   age:  up to 20  101 | 20 to 30  111 | above 30  110 | missing  100
                hair: dark      001 | red       111 |                 missing  001
        a row (25, red) matches 111 & 111: all; (40, dark) matches 110 & 001: none
    """

    masks: Array  # (n_cells, n_words) int64
    offsets: Array  # (d, 1) int64: first cell of each column used, numeric ones first
    edges: Array  # (d_numeric, e) thresholds of the numeric columns used, ascending, padded with inf
    numeric: Array  # (d_numeric,) int64: positions in the numeric block
    nominal: Array  # (d_nominal,) int64: positions in the nominal codes
    missing: Array  # (d, 1) int64: the cell of a missing value
    n_rules: int
    all_rules: Array  # (n_words,) int64: the bits of all rules

    @property
    def n_words(self) -> int:
        """Number of integers that hold one bit per rule."""
        return int(self.all_rules.shape[0])


def compile_rules(place: Place, rules: Sequence[Conditions], schema: Schema) -> Matcher:
    """Turn conjunctions into tables of bit masks at `place`."""
    numeric, nominal = _columns_used(rules, schema)
    edges = [_edges(rules, schema.numeric_idx[j]) for j in numeric]
    n_values = tuple(schema.n_values[j] for j in nominal)
    tables = [_numeric_masks(rules, schema.numeric_idx[j], e) for j, e in zip(numeric, edges, strict=True)]
    tables += [
        _nominal_masks(rules, schema.nominal_idx[j], size) for j, size in zip(nominal, n_values, strict=True)
    ]
    n_words = max(1, -(-len(rules) // WORD))
    every = (1 << len(rules)) - 1
    offsets: list[int] = []
    cells: list[list[int]] = []
    for table in tables:
        offsets.append(len(cells))
        cells += [_words(every & ~forbidden, n_words) for forbidden in table]
    width = max([1, *map(len, edges)])
    padded = [e + [float("inf")] * (width - len(e)) for e in edges] or [[float("inf")] * width]
    xp = place.xp
    return Matcher(
        _integers(place, cells or [[0] * n_words]),
        _integers(place, [[offset] for offset in offsets] or [[0]])[: len(offsets), :],
        from_host(padded, place, accumulator_dtype(place))[: len(edges), :],
        _integers(place, numeric),
        _integers(place, nominal),
        _integers(place, [[len(table) - 1] for table in tables] or [[0]])[: len(tables), :],
        len(rules),
        xp.asarray(_words(every, n_words), dtype=xp.int64, device=place.device),
    )


def _integers(place: Place, values: list[int] | list[list[int]]) -> Array:
    return place.xp.asarray(values, dtype=place.xp.int64, device=place.device)


def _words(mask: int, n_words: int) -> list[int]:
    return [(mask >> (WORD * word)) & ((1 << WORD) - 1) for word in range(n_words)]


def _columns_used(rules: Sequence[Conditions], schema: Schema) -> tuple[list[int], list[int]]:
    used = {condition.column for rule in rules for condition in rule}
    numeric = [j for j, column in enumerate(schema.numeric_idx) if column in used]
    nominal = [j for j, column in enumerate(schema.nominal_idx) if column in used]
    return numeric, nominal


def _edges(rules: Sequence[Conditions], column: int) -> list[float]:
    return sorted({float(one.value) for rule in rules for one in rule if one.column == column})


def _numeric_masks(rules: Sequence[Conditions], column: int, edges: list[float]) -> list[int]:
    """For each bin of a column, and for missing: the bits of the rules that it rules out."""
    at_most, beyond = [0] * (len(edges) + 2), [0] * (len(edges) + 2)
    anything = 0
    for position, rule in enumerate(rules):
        bit = 1 << position
        for condition in rule:
            if condition.column != column:
                continue
            edge = bisect.bisect_left(edges, float(condition.value))
            anything |= bit
            if condition.relation == "<=":
                at_most[edge + 1] |= bit  # rules out the bins from there on
            else:
                beyond[edge] |= bit  # rules out the bins up to there
    n_bins = len(edges) + 1
    for i in range(1, n_bins):
        at_most[i] |= at_most[i - 1]
    for i in reversed(range(n_bins - 1)):
        beyond[i] |= beyond[i + 1]
    return [at_most[i] | beyond[i] for i in range(n_bins)] + [anything]


def _nominal_masks(rules: Sequence[Conditions], column: int, n_values: int) -> list[int]:
    """For each category of a column, and for missing: the bits of the rules that it rules out."""
    forbidden = [0] * (n_values + 1)
    for position, rule in enumerate(rules):
        allowed: set[int] | None = None
        for condition in rule:
            if condition.column == column:
                codes = set(condition.value) if condition.relation == "in" else {condition.value}
                allowed = codes if allowed is None else allowed & codes
        if allowed is not None:
            for value in range(n_values + 1):
                if value not in allowed:
                    forbidden[value] |= 1 << position
    return forbidden


# ---- rows


def match_rows(xp: Namespace, matcher: Matcher, table: Table) -> Array:
    """Find the rules that match each row.

    Parameters
    ----------
    matcher : Matcher
        From `compile_rules`.
    table : Table
        Rows, read by the schema that the rules were compiled for.

    Returns
    -------
    int64 array (n, n_words)
        Bit ``i % 62`` of word ``i // 62`` is set where rule i matches. A missing value meets no condition.
    """
    d = matcher.offsets.shape[0]
    if d == 0:
        return xp.broadcast_to(matcher.all_rules[None, :], (table.n_rows, matcher.n_words))
    parts = []
    for rows in row_chunks(table.n_rows, 8 * d * (matcher.n_words + 4)):
        cells = _cells(xp, matcher, table, rows)
        words = [
            _and_all(
                xp, xp.reshape(xp.take(matcher.masks[:, word], xp.reshape(cells, (-1,)), axis=0), cells.shape)
            )
            for word in range(matcher.n_words)
        ]
        parts.append(xp.stack(words, axis=1))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def _cells(xp: Namespace, matcher: Matcher, table: Table, rows: slice) -> Array:
    """Find the cell (d, m) of each row in the masks of each column used."""
    parts = []
    if matcher.numeric.shape[0]:
        x = xp.take(table.numeric[rows, :], matcher.numeric, axis=1)
        parts.append(_bins(xp, x, xp.astype(matcher.edges, x.dtype)))
    if matcher.nominal.shape[0]:
        parts.append(xp.astype(xp.take(table.codes[:, rows], matcher.nominal, axis=0), xp.int64))
    values = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    return matcher.offsets + xp.where(values == MISSING_CODE, matcher.missing, values)


def _bins(xp: Namespace, x: Array, edges: Array) -> Array:
    """Count the edges below each value of (m, d) as int64 (d, m), or MISSING_CODE."""
    width = edges.shape[1]
    if width <= _MOST_EDGES:
        bins = xp.astype(bin_columns(xp, x, edges, missing_bin=width + 1), xp.int64)
        return xp.where(bins == width + 1, MISSING_CODE, bins)
    columns = xp.permute_dims(x, (1, 0))
    is_missing = xp.isnan(columns)
    found = xpx.searchsorted(edges, xp.where(is_missing, 0.0, columns), side="left", xp=xp)
    return xp.where(is_missing, MISSING_CODE, xp.astype(found, xp.int64))


def _and_all(xp: Namespace, words: Array) -> Array:
    """Take the bitwise "and" over the first axis, by halves."""
    while words.shape[0] > 1:
        d = words.shape[0]
        half = (d + 1) // 2
        joined = words[: d - half, ...] & words[half:, ...]
        words = joined if d == 2 * half else xp.concat((joined, words[d - half : half, ...]), axis=0)
    return words[0, ...]


def first_rule(xp: Namespace, words: Array, n_rules: int) -> Array:
    """Return the first rule (n,) that matches each row, `n_rules` where none does."""
    device = array_api_compat.device(words)
    lowest = words & -words
    number = xp.astype(xp.where(lowest > 0, lowest, 1), accumulator_dtype(Place(xp, device)))
    bit = xp.astype(xp.round(xp.log2(number)), xp.int64)
    first = WORD * xp.arange(words.shape[1], dtype=xp.int64, device=device)
    return xp.min(xp.where(lowest > 0, first[None, :] + bit, n_rules), axis=1)


def fired(xp: Namespace, words: Array, n_rules: int) -> Array:
    """Return which rules match which rows, as integers 0 and 1 (n, n_rules)."""
    rule = xp.arange(n_rules, dtype=xp.int64, device=array_api_compat.device(words))
    return (xp.take(words, rule // WORD, axis=1) >> (rule % WORD)) & 1


# ---- decisions

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


def make_model(
    place: Place,
    matcher: Matcher,
    order: tuple[int, ...],
    codes: list[int],
    counts: Sequence[Sequence[float]],
    prior: Sequence[float],
    *,
    is_vote: bool,
) -> RuleModel:
    """Make the model of a rule set.

    Parameters
    ----------
    place : Place
        Where the model is put, and the matcher is.
    matcher : Matcher
        The rules, in the order in which they decide.
    order : tuple of r int
        That order, from `order_rules`.
    codes : list of (r + 1) int
        The classes of the rules in that order, then the default.
    counts : (r + 1) x k numbers
        Weights of the classes, in rows, among the rows that each rule decides, in that order, then by none.
    prior : k numbers
        Weights of the classes.
    is_vote : bool
        Whether the majority of the rules that fire decides.

    Returns
    -------
    RuleModel
        Probabilities carry a Laplace correction, and a rule's own class is never below another.
    """
    k = len(prior)
    probability = [_shares(weights, code, prior) for weights, code in zip(counts, codes, strict=True)]
    votes = [[1.0 if c == code else 0.0 for c in range(k)] for code in codes[:-1]]
    dtype = accumulator_dtype(place)
    return RuleModel(
        matcher,
        from_host(codes, place, place.xp.int64),
        from_host(probability, place, dtype),
        from_host(votes or [[0.0] * k], place, dtype)[: len(order), :],
        from_host([one / sum(prior) for one in prior], place, dtype),
        order,
        is_vote,
    )


def _shares(weights: Sequence[float], code: int, prior: Sequence[float]) -> list[float]:
    smoothed = [weight + (1.0 if share > 0 else 0.0) for weight, share in zip(weights, prior, strict=True)]
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
