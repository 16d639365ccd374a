"""Compiled scores of splits with integer class weights, by all criteria but Gini's and Newton's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Float, Host, Int, part
from arraylearn.grow import formulas
from arraylearn.grow.formulas import CHI2, ENTROPY, ERROR

__all__ = [
    "NodeTerms",
    "describe_node",
    "score_by_logs",
    "score_majority",
    "score_sides",
    "score_two_by_chi2",
]

_majority_score = part(formulas.majority_score)
_chi2_part = part(formulas.chi2_part)
_gini_surplus = part(formulas.gini_surplus)
_information = part(formulas.information)
_information_score = part(formulas.information_score)


class NodeTerms(NamedTuple):
    """Terms that all splits of a node share; logarithms are in units of their table."""

    n: Int  # weight
    size: Float  # the same in units, float64
    node: Int  # n log2(n)
    classes: Int  # the same, summed over the classes
    noise: Int  # information of up to so many units counts as 0: it may be rounding
    before: Int  # weight of the largest class if the criterion subtracts it, else 0


@part
def describe_node(criterion: Int, logs: Host, unit: Float, sums: Host) -> NodeTerms:
    """Return the terms of a node with the class weights `sums`."""
    n, classes, most = np.int64(0), np.int64(0), np.int64(0)
    for c in range(sums.shape[0]):
        n += sums[c]
        most = sums[c] if sums[c] > most else most
    node = np.int64(0)
    if criterion >= ENTROPY:
        node = logs[n]
        for c in range(sums.shape[0]):
            classes += logs[sums[c]]
    before = most if criterion == ERROR else np.int64(0)
    return NodeTerms(n, np.float64(n) / unit, node, classes, np.int64(3 * (sums.shape[0] + 1)), before)


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
def score_two_by_chi2(zero: Int, one: Int, zeros: Int, ones: Int) -> Float:
    """Score two classes by chi2: `zero` of `zeros` and `one` of `ones` are left; the totals are above 0."""
    n_near, n_far = np.float64(zero + one), np.float64(zeros + ones - zero - one)
    parts = _chi2_part(np.float64(zero), np.float64(zeros - zero), n_near, n_far)
    parts += _chi2_part(np.float64(one), np.float64(ones - one), n_near, n_far)
    return np.float64(np.float32(_gini_surplus(parts, n_near, n_far)))
