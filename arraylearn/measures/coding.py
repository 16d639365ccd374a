r"""Entropy as question length: how many yes/no questions find a value that comes with probability p.

Each function takes the distribution of one random variable and returns the number of questions that each
value needs under a scheme; `expected_length` averages them. No scheme of questions about
single draws expects fewer than :math:`H = -\sum_i p_i \log_2 p_i` (Shannon), and Huffman's expects fewer than
:math:`H + 1`. These are host algorithms on one distribution: arrays of other libraries are copied there.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from typing import Any

from arraylearn.backend.namespace import is_array, to_host
from arraylearn.checks import refuse

__all__ = [
    "expected_length",
    "halving_code_lengths",
    "huffman_code_lengths",
    "sequential_code_lengths",
    "shannon_fano_code_lengths",
]


def huffman_code_lengths(p: Any) -> list[int]:
    """Code lengths of Huffman's optimal prefix code.

    Parameters
    ----------
    p : sequence of n numbers
        Probabilities or counts, not negative, of any positive sum.

    Returns
    -------
    list of n int
        Questions per value: join the two least probable sets until one is left; each join asks one question.

    References
    ----------
    D. A. Huffman, "A method for the construction of minimum-redundancy codes", Proc. IRE 40, 1952.

    Examples
    --------
    >>> from arraylearn import measures
    >>> measures.huffman_code_lengths([0.10, 0.15, 0.16, 0.19, 0.40])
    [3, 3, 3, 3, 1]
    """
    weights = _weights(p)
    lengths = [0] * len(weights)
    # the middle entry breaks ties in favour of the set that was there first
    heap: list[tuple[float, int, list[int]]] = [(w, i, [i]) for i, w in enumerate(weights)]
    heapq.heapify(heap)
    for order in range(len(weights), 2 * len(weights) - 1):
        first_weight, _, first = heapq.heappop(heap)
        second_weight, _, second = heapq.heappop(heap)
        joined = first + second
        for i in joined:
            lengths[i] += 1
        heapq.heappush(heap, (first_weight + second_weight, order, joined))
    return lengths


def shannon_fano_code_lengths(p: Any) -> list[int]:
    """Code lengths of the Shannon-Fano scheme.

    Parameters
    ----------
    p : sequence of n numbers
        Probabilities or counts, not negative, of any positive sum.

    Returns
    -------
    list of n int
        Questions per value: sort by probability, cut where both halves weigh as nearly the same as can be,
        ask which half, go on inside it.

    References
    ----------
    R. M. Fano, "The transmission of information", MIT Research Laboratory of Electronics, report 65, 1949.

    Examples
    --------
    >>> from arraylearn import measures
    >>> measures.shannon_fano_code_lengths([0.10, 0.15, 0.16, 0.19, 0.40])
    [3, 3, 2, 2, 2]
    """
    weights = _weights(p)
    by_weight = sorted(range(len(weights)), key=lambda i: weights[i])
    return _split_lengths(weights, by_weight, _balanced_cut)


def halving_code_lengths(p: Any) -> list[int]:
    """Questions per value when each question halves the list of values, whatever their probabilities.

    Parameters
    ----------
    p : sequence of n numbers
        Probabilities or counts; only their number matters. Of an odd list the first half is the shorter one.

    Returns
    -------
    list of n int
        Each is the floor or the ceiling of log2 n.

    Examples
    --------
    >>> from arraylearn import measures
    >>> measures.halving_code_lengths([0.10, 0.15, 0.16, 0.19, 0.40])
    [2, 2, 2, 3, 3]
    """
    weights = _weights(p)
    return _split_lengths(weights, range(len(weights)), lambda members: len(members) // 2)


def sequential_code_lengths(p: Any) -> list[int]:
    """Questions per value when the values are tried one after the other, in the order given.

    Parameters
    ----------
    p : sequence of n numbers
        Probabilities or counts; only their number matters.

    Returns
    -------
    list of n int
        1, 2, ..., n - 1, n - 1: what is left at the end needs no question of its own.

    Examples
    --------
    >>> from arraylearn import measures
    >>> measures.sequential_code_lengths([0.10, 0.15, 0.16, 0.19, 0.40])
    [1, 2, 3, 4, 4]
    """
    n = len(_weights(p))
    return [min(i + 1, n - 1) for i in range(n)]


def expected_length(p: Any, lengths: Iterable[int]) -> float:
    r"""Mean number of questions.

    .. math:: \sum_i p_i \ell_i / \sum_i p_i

    Parameters
    ----------
    p : sequence of n numbers
        Probabilities or counts.
    lengths : n int
        Questions per value.

    Returns
    -------
    float
        In questions, that is, bits.

    Examples
    --------
    >>> from arraylearn import measures
    >>> p = [0.10, 0.15, 0.16, 0.19, 0.40]
    >>> round(measures.expected_length(p, measures.huffman_code_lengths(p)), 2)
    2.2
    """
    weights = _weights(p)
    asked = [int(length) for length in lengths]
    if len(asked) != len(weights):
        raise refuse("lengths", f"must have one entry per probability ({len(weights)})", len(asked))
    return math.fsum(w * length for w, length in zip(weights, asked, strict=True)) / math.fsum(weights)


def _weights(p: Any) -> list[float]:
    """Check a distribution and return it as a list of floats."""
    values = to_host(p) if is_array(p) else p
    weights = [float(value) for value in values]
    if not weights or any(not math.isfinite(w) or w < 0 for w in weights) or math.fsum(weights) <= 0:
        raise refuse("p", "must hold finite numbers, none negative and not all zero", weights)
    return weights


def _split_lengths(
    weights: list[float], order: Iterable[int], cut: Callable[[list[float]], int]
) -> list[int]:
    """Cut the list of values in two until each stands alone; count the cuts."""
    lengths = [0] * len(weights)
    pending = [list(order)]
    while pending:
        members = pending.pop()
        if len(members) < 2:
            continue
        for i in members:
            lengths[i] += 1
        at = cut([weights[i] for i in members])
        pending += [members[:at], members[at:]]
    return lengths


def _balanced_cut(weights: list[float]) -> int:
    """Find the cut that makes the two sums most alike; the first of equals."""
    total = math.fsum(weights)
    below, best, best_gap = 0.0, 1, math.inf
    for at in range(1, len(weights)):
        below += weights[at - 1]
        gap = abs(total - 2 * below)
        if gap < best_gap:
            best, best_gap = at, gap
    return best
