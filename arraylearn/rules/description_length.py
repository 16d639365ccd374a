"""Bits to state a rule set and its errors: RIPPER compares and deletes rules by them, and stops by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from arraylearn.rules.counts import Counts

__all__ = [
    "Totals",
    "data_bits",
    "find_needless",
    "least_data_bits",
    "relative_bits",
    "subset_bits",
    "theory_bits",
]

_SLACK = 1e-6
# The conditions of a rule are partly redundant: half of their bits are counted.
_REDUNDANCY = 0.5


class Totals(NamedTuple):
    """All rows and all conditions that the rules of one class choose from."""

    positive: float  # weight of the positive rows
    total: float  # weight of all rows
    false_positive_share: float  # expected share of the false positives among the errors
    n_conditions: float  # number of all possible conditions


def subset_bits(n: float, k: float, p: float) -> float:
    r"""Bits to name `k` of `n` elements when each is expected to be chosen with probability `p`.

    .. math:: -k \log_2 p - (n - k) \log_2 (1 - p)
    """
    bits = -k * math.log2(p) if p > 0 else 0.0
    if p < 1:
        return bits - (n - k) * math.log2(1 - p)
    return bits if n - k <= _SLACK else math.inf


@cache
def theory_bits(n_literals: int, n_conditions: float) -> float:
    r"""Bits to state a rule: how many literals (in Rissanen's code), and which of all conditions.

    .. math:: \tfrac12 \left(\|k\| + S(N, k, k/N)\right)
    """
    if n_literals == 0:
        return 0.0
    k = float(n_literals)
    bits = math.log2(k)
    if k > 1:
        bits += 2 * math.log2(bits) if bits > 0 else 0.0
    # a rule that grew twice on one column may have more literals than there are conditions
    return _REDUNDANCY * (bits + subset_bits(max(n_conditions, k), k, min(1.0, k / n_conditions)))


def data_bits(share: float, covered: float, uncovered: float, false_pos: float, false_neg: float) -> float:
    """Bits to name the errors: false positives among the covered rows, false negatives among the others.

    `share` is the expected share of the false positives among the errors. The larger part of the rows is
    coded by the error rate that follows from it, the smaller one by its own rate.
    """
    bits = math.log2(covered + uncovered + 1.0)
    errors = false_pos + false_neg
    is_mostly_covered = covered > uncovered
    if covered > _SLACK:
        expected = share * errors if is_mostly_covered else false_pos
        if false_pos or expected:
            bits += subset_bits(covered, false_pos, min(1.0, expected / covered))
    if uncovered > _SLACK:
        expected = false_neg if is_mostly_covered else (1 - share) * errors
        if false_neg or expected:
            bits += subset_bits(uncovered, false_neg, min(1.0, expected / uncovered))
    return bits


class _RunningSums:
    """Sums over the rules that are not deleted."""

    def __init__(self, totals: Totals, counts: Sequence[Counts]) -> None:
        self.totals = totals
        self.positive = sum([one.positive for one in counts])
        self.covered = sum([one.covered for one in counts])
        self.bits = self._bits(self.positive, self.covered)

    def _bits(self, positive: float, covered: float) -> float:
        totals = self.totals
        return data_bits(
            totals.false_positive_share,
            max(0.0, covered),
            max(0.0, totals.total - covered),
            max(0.0, covered - positive),
            max(0.0, totals.positive - positive),
        )

    def delete_if_needless(self, counts: Counts, n_literals: int) -> float | None:
        """Return the bits that deleting a rule saves, and delete it; None if it should stay."""
        positive, covered = self.positive - counts.positive, self.covered - counts.covered
        without = self._bits(positive, covered)
        saved = self.bits + theory_bits(n_literals, self.totals.n_conditions) - without
        is_wrong = counts.covered > 0 and (counts.covered - counts.positive) / counts.covered >= 0.5
        if saved < 0 and not is_wrong:
            return None
        self.positive, self.covered, self.bits = positive, covered, without
        return saved


def least_data_bits(totals: Totals, counts: Sequence[Counts], sizes: Sequence[int], first: int) -> float:
    """Bits of the errors once the rules from `first` on that cost more bits than they save are deleted.

    `counts` is what each rule covers of the rows that no earlier rule covers, `sizes` its number of literals.
    """
    running = _RunningSums(totals, counts)
    saved = 0.0
    for k in range(first, len(counts)):
        saved += running.delete_if_needless(counts[k], sizes[k]) or 0.0
    return running.bits - saved


def relative_bits(
    totals: Totals, at: int, counts: Sequence[Counts], sizes: Sequence[int], without: float
) -> float:
    """Bits that a rule set needs more with the rule at position `at` than without it.

    Parameters
    ----------
    totals : Totals
        The rows and the conditions.
    at : int
        Position of the rule.
    counts : sequence of Counts
        What each rule covers.
    sizes : sequence of int
        Number of literals of each rule.
    without : float
        `least_data_bits` of the rules without it, from `at` on.

    Returns
    -------
    float
        Negative if the rule pays.
    """
    with_it = least_data_bits(totals, counts, sizes, at + 1)
    return with_it + theory_bits(sizes[at], totals.n_conditions) - without


def find_needless(totals: Totals, counts: Sequence[Counts], sizes: Sequence[int]) -> list[int]:
    """Return the positions of the rules whose deletion saves bits, from the last rule to the first."""
    running = _RunningSums(totals, counts)
    return [
        k for k in reversed(range(len(counts))) if running.delete_if_needless(counts[k], sizes[k]) is not None
    ]
