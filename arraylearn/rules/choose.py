"""Choose a literal among the best of each column, on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from arraylearn.rules.candidates import Candidates, choose_threshold
from arraylearn.rules.foil import BELOW, COVERED, HIGH, LOW, POSITIVE, SCORE, SIDE
from arraylearn.rules.rule import Condition, Relation

__all__ = ["Choice", "Entry", "best_entry", "choose", "make_choice", "near_best"]

# Position of a column in ``candidates.idx``, and the numbers of its best literal.
Entry = tuple[int, list[float]]


class Choice(NamedTuple):
    """A literal with its score and the weights of the positive rows and of all rows that it leaves."""

    condition: Condition
    score: float
    counts: tuple[float, float]


def choose(candidates: Candidates, parts: Sequence[Any], *, is_single: bool) -> Choice | None:
    """Choose among summaries of `score_literals`; None where there is no literal."""
    entry = best_entry(candidates, near_best(candidates, parts))
    return None if entry is None else make_choice(candidates, entry, is_single=is_single)


def near_best(candidates: Candidates, parts: Sequence[Any]) -> list[Entry]:
    """Return the columns whose literals score best, near equals included."""
    tops = [max(part[SCORE].tolist()) for part in parts]
    top = max(tops, default=-math.inf)
    if top == -math.inf:
        return []
    least = top - candidates.tolerance * abs(top)
    found: list[Entry] = []
    offset = 0
    for part, best in zip(parts, tops, strict=True):
        if best >= least:
            found += [(offset + j, part[:, j].tolist()) for j in (part[SCORE] >= least).nonzero()[0].tolist()]
        offset += part.shape[1]
    return found


def best_entry(candidates: Candidates, entries: Sequence[Entry]) -> Entry | None:
    """Choose by score, then coverage, then fewer values, then the first column."""
    if not entries:
        return None
    top = max(numbers[SCORE] for _, numbers in entries)
    least = top - candidates.tolerance * abs(top)
    tied = [entry for entry in entries if entry[1][SCORE] >= least]
    return min(
        tied, key=lambda entry: (-entry[1][COVERED], candidates.n_values[entry[0]], candidates.idx[entry[0]])
    )


def make_choice(candidates: Candidates, entry: Entry, *, is_single: bool) -> Choice:
    """State the literal of an entry."""
    at, numbers = entry
    column, counts = candidates.idx[at], (numbers[POSITIVE], numbers[COVERED])
    if len(numbers) <= SIDE:
        return Choice(Condition(column, "=", int(numbers[LOW])), numbers[SCORE], counts)
    value = choose_threshold(numbers[LOW], numbers[HIGH], is_single=is_single)
    relation: Relation = "<=" if numbers[SIDE] == BELOW else ">"
    return Choice(Condition(column, relation, value), numbers[SCORE], counts)
