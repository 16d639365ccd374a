"""Compiled scores of splits with integer class weights, by all criteria but Gini's and Newton's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Float, Host, HostOrNone, Int, index, part
from arraylearn.grow import formulas
from arraylearn.grow.criteria import LogTable
from arraylearn.grow.formulas import CHI2, ENTROPY, ERROR, INTERVAL_BITS, WEIGHT_BITS

__all__ = [
    "NodeTerms",
    "describe_node",
    "describe_pair",
    "move",
    "n_log_n",
    "score_by_logs",
    "score_majority",
    "score_pair",
    "score_sides",
    "score_vector",
]

_majority_score = part(formulas.majority_score)
_chi2_part = part(formulas.chi2_part)
_gini_surplus = part(formulas.gini_surplus)
_lift = part(formulas.lift)
_n_log_n = part(formulas.n_log_n)
_information = part(formulas.information)
_information_score = part(formulas.information_score)


# The bits of a lifted weight after those of its interval, and a mask of intervals.
_REST, _INTERVALS = WEIGHT_BITS - 1 - INTERVAL_BITS, (1 << INTERVAL_BITS) - 1


class NodeTerms(NamedTuple):
    """Terms that all splits of a node share; logarithms are in units of their table."""

    n: Int  # weight
    size: Float  # the same in units, float64
    node: Int  # n log2(n)
    classes: Int  # the same, summed over the classes
    noise: Int  # information of up to so many units counts as 0: it may be rounding
    before: Int  # weight of the largest class if the criterion subtracts it, else 0


@part
def n_log_n(logs: LogTable, n: Int) -> Int:
    """Return n log2(n) in units of the table."""
    return _look_up(logs.values, logs, n)


@part
def _look_up(values: HostOrNone, logs: LogTable, n: Int) -> Int:
    if values is None:
        lifted, exponent = _lift(np.int64(n))
        at = index((lifted >> _REST) & _INTERVALS)
        return _n_log_n(lifted, exponent, logs.logs[at], logs.slopes[at], logs.bits)
    else:
        return values[index(n)]


@part
def describe_node(criterion: Int, logs: LogTable, sums: Host) -> NodeTerms:
    """Return the terms of a node with the class weights `sums`."""
    n, classes, most = np.int64(0), np.int64(0), np.int64(0)
    for c in range(sums.shape[0]):
        n += sums[c]
        most = sums[c] if sums[c] > most else most
    node = np.int64(0)
    if criterion >= ENTROPY:
        node = n_log_n(logs, n)
        for c in range(sums.shape[0]):
            classes += n_log_n(logs, sums[c])
    before = most if criterion == ERROR else np.int64(0)
    return NodeTerms(n, np.float64(n << logs.bits), node, classes, np.int64(3 * (sums.shape[0] + 1)), before)


@part
def score_by_logs(criterion: Int, terms: NodeTerms, cells: Int, branches: Int) -> Float:
    """Score by ``n log2(n)``, summed over the cells of side and class, and over the sides; in float32."""
    gained = _information(terms.node, cells, branches, terms.classes)
    gained = gained if gained > terms.noise else np.int64(0)
    split, held = np.float64(terms.node - branches), np.float64(terms.node - terms.classes)
    score = _information_score(criterion, np.float64(gained), split, held, terms.size)
    return np.float64(np.float32(score))


@part
def score_majority(terms: NodeTerms, correct: Int) -> Float:
    """Score by the weight of the largest class of each side; in float32."""
    score = _majority_score(np.float64(correct), np.float64(terms.before), np.float64(terms.n))
    return np.float64(np.float32(score))


@part
def score_sides(criterion: Int, terms: NodeTerms, left: Host, sums: Host, n_left: Int) -> Float:
    """Score by chi2 or by the largest classes, with class weights `left` of the `sums`; in float32."""
    if criterion == CHI2:
        n_near, n_far, parts = np.float64(n_left), np.float64(terms.n - n_left), 0.0
        for c in range(sums.shape[0]):
            if sums[c] > 0:
                parts += _chi2_part(np.float64(left[c]), np.float64(sums[c] - left[c]), n_near, n_far)
        return np.float64(np.float32(_gini_surplus(parts, n_near, n_far)))
    most_left, most_right = np.int64(0), np.int64(0)
    for c in range(sums.shape[0]):
        most_left = left[c] if left[c] > most_left else most_left
        most_right = sums[c] - left[c] if sums[c] - left[c] > most_right else most_right
    return score_majority(terms, most_left + most_right)


@part
def describe_pair(criterion: Int, logs: LogTable, n: Int, ones: Int) -> NodeTerms:
    """Return the terms of a node of weight `n`, of which `ones` are of the second of two classes."""
    node, classes, zeros = np.int64(0), np.int64(0), n - ones
    if criterion >= ENTROPY:
        node, classes = n_log_n(logs, n), n_log_n(logs, ones) + n_log_n(logs, zeros)
    before = (ones if ones > zeros else zeros) if criterion == ERROR else np.int64(0)
    # a sum of nine logarithms (of the node, two branches, two classes, four cells) is up to nine units off
    return NodeTerms(n, np.float64(n << logs.bits), node, classes, np.int64(9), before)


@part
def score_pair(criterion: Int, logs: LogTable, terms: NodeTerms, n_left: Int, one: Int, ones: Int) -> Float:
    """Score a cut with `one` of the `ones` among the `n_left` left rows; both sides have rows."""
    n_right, zero, one_right = terms.n - n_left, n_left - one, ones - one
    zero_right = n_right - one_right
    if criterion >= ENTROPY:
        cells = n_log_n(logs, one) + n_log_n(logs, zero)
        cells += n_log_n(logs, one_right) + n_log_n(logs, zero_right)
        return score_by_logs(criterion, terms, cells, n_log_n(logs, n_left) + n_log_n(logs, n_right))
    if criterion == CHI2:
        n_near, n_far = np.float64(n_left), np.float64(n_right)
        parts = _chi2_part(np.float64(zero), np.float64(zero_right), n_near, n_far)
        parts += _chi2_part(np.float64(one), np.float64(one_right), n_near, n_far)
        return np.float64(np.float32(_gini_surplus(parts, n_near, n_far)))
    most_left = one if one > zero else zero
    return score_majority(terms, most_left + (one_right if one_right > zero_right else zero_right))


@part
def move(criterion: Int, logs: LogTable, here: Host, sums: Host, c: Int, more: Int) -> Int:
    """Move weight of a class to the left; return the change of n log2(n) summed over sides and classes."""
    held, at = here[c], np.int64(0)
    here[c] = held + more
    if criterion >= ENTROPY:
        rest = sums[c] - held
        at = n_log_n(logs, held + more) - n_log_n(logs, held)
        at += n_log_n(logs, rest - more) - n_log_n(logs, rest)
    return at


@part
def score_vector(
    criterion: Int, logs: LogTable, terms: NodeTerms, here: Host, sums: Host, n_left: Int, cells: Int
) -> Float:
    """Score a cut with class weights `here` of the `sums` on the left; `cells` is the sum of `move`."""
    if criterion >= ENTROPY:
        return score_by_logs(criterion, terms, cells, n_log_n(logs, n_left) + n_log_n(logs, terms.n - n_left))
    return score_sides(criterion, terms, here, sums, n_left)
