"""Fitted models in a form that does not depend on how they are stored.

All that the digests know of the inside of a model stands here: a change that renames, moves or renumbers what
a model holds changes these functions, and no digest.

A tree is a list of lines in preorder. Numbers that are integer sums, or follow from them by one rounding, are
written to the bit; what is made of logarithms or products of matrices is kept as numbers, see `Numbers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import arraylearn as al

__all__ = ["Numbers", "describe", "digest", "measure", "predictions", "project", "show_array"]

# What the float families are compared by: names and a few numbers each, or a digest of labels and counts.
Numbers = dict[str, Any]

# Probabilities that went through `exp` differ in their last bit between machines.
_SHARES = 1 << 30
# Rows so close to a boundary, as a share of the largest decision value, have no label in a digest.
_BOUNDARY = 1e-4
# Units of the integers that models hold.
_LEAF_UNIT, _SHARE_UNIT = 2.0**-20, 2.0**-20


def digest(lines: Sequence[str]) -> str:
    """Return the first 16 hexadecimal digits of the hash of some lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def describe(model: Any) -> list[str]:
    """Return the model as lines, to the bit."""
    return list(_form_of(model)(model))


def _form_of(model: Any) -> Callable[[Any], Iterator[str]]:
    for kinds, form in _FORMS:
        if isinstance(model, kinds):
            return form
    raise TypeError(f"no canonical form of {type(model).__name__}")


def predictions(model: Any, X: Any) -> list[str]:
    """Return the labels and shares that a model predicts as lines."""
    lines = [f"labels {show_labels(model.predict(X))}"]
    shares = model.predict_proba(X)
    if isinstance(model, al.GradientBoostingClassifier | al.AdaBoostClassifier):
        lines += [f"scores {show_array(model.decision_function(X))}"]
        lines += [f"shares {shares.dtype} {show_array(np.rint(np.float64(shares) * _SHARES))}"]
    else:
        lines += [f"shares {show_array(shares)}"]
    return lines


def show_array(values: Any) -> str:
    """Write dtype, shape and a hash of the bits of an array."""
    values = np.ascontiguousarray(values)
    values = np.where(values == 0, np.zeros((), values.dtype), values)  # no negative zero
    return f"{values.dtype} {values.shape} {hashlib.sha256(values.tobytes()).hexdigest()[:16]}"


def show_labels(labels: Any) -> str:
    """Write a hash of labels of any kind."""
    return digest([str(label) for label in np.asarray(labels).tolist()])


def _bits(values: Any) -> str:
    """Write numbers so that each bit shows."""
    return " ".join((float(value) + 0.0).hex() for value in values)


def _preorder(n_children: Callable[[int], Sequence[int]], root: int) -> Iterator[int]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(n_children(node))


# ---- single trees


def _tree(model: Any) -> Iterator[str]:
    """Write feature, cut or branches, branch of missing values and class counts of each node."""
    tree = model.tree_
    first, number, kind = tree.first_child.tolist(), tree.n_branches.tolist(), tree.kind

    def children(node: int) -> range:
        return range(first[node], first[node] + number[node])

    for node in _preorder(children, 0):
        counts = _bits(tree.counts[node])
        if not number[node]:
            yield f"leaf | {counts} | {_bits(tree.probability[node])}"
            continue
        missing = int(tree.default_branch[node])
        yield f"{_test(model, tree, kind[node], node)} | missing {missing} | {counts}"
        yield from _surrogates(model, tree, node)


def _test(model: Any, split: Any, kind: int, at: Any) -> str:
    """Write what a split, or a surrogate, asks: one form for both."""
    feature = int(split.feature[at])
    if kind == 1:
        return f"x{feature} <= {_bits([split.threshold[at]])}"
    start, n_values = int(split.map_start[at]), len(model.schema_.columns[feature].domain or ())
    return f"x{feature} to {model.tree_.category_branch[start : start + n_values].tolist()}"


def _surrogates(model: Any, tree: Any, node: int) -> Iterator[str]:
    found = tree.surrogates
    if found is None:
        return
    for rank in range(found.feature.shape[1]):
        at = node, rank
        if found.feature[at] >= 0:
            test, low = _test(model, found, found.kind[at], at), int(found.low_branch[at])
            yield f"  else {test} low {low} | {_bits([found.agreement[at]])}"


# ---- trees over bins


def _binned(trees: Any, binning: Any, model: Any, leaf: Callable[[int], str]) -> Iterator[str]:
    """Write feature, cut or the branch of each category, and that of missing values."""
    schema = model.schema_
    columns = [*schema.numeric_idx, *schema.nominal_idx]
    n_numeric, last = len(schema.numeric_idx), binning.n_bins - 1
    edges = np.asarray(binning.edges, dtype=np.float64)
    feature, cut, left = (getattr(trees, name).tolist() for name in ("feature", "threshold", "first_child"))
    start = [-1] * len(feature) if trees.map_start is None else trees.map_start.tolist()
    missing = [1] * len(feature) if trees.default_branch is None else trees.default_branch.tolist()

    def children(node: int) -> list[int]:
        return [] if left[node] < 0 else [left[node], left[node] + 1]

    def goes_right(node: int, bin_of: int) -> int:
        if start[node] >= 0:
            return int(trees.category_branch[start[node] + bin_of])
        return int(missing[node] if bin_of == last else bin_of > cut[node])

    def test(node: int) -> str:
        j = feature[node]
        side = goes_right(node, last)
        if j < n_numeric:
            value = edges[j, cut[node]] if cut[node] < edges.shape[1] else np.inf
            return f"x{columns[j]} <= {_bits([value])} | missing {side}"
        n_values = len(schema.columns[columns[j]].domain or ())
        bins = binning.category_bin[j - n_numeric, 1 : 1 + n_values].tolist()
        return f"x{columns[j]} to {[goes_right(node, one) for one in bins]} | missing {side}"

    for root in trees.roots.tolist():
        yield "tree"
        for node in _preorder(children, root):
            yield leaf(node) if left[node] < 0 else test(node)


def _forest(model: Any) -> Iterator[str]:
    found = model.model_
    for grove in found.groves:
        shares = np.asarray(grove.trees.probability) * _SHARE_UNIT
        yield from _binned(
            grove.trees, found.binning, model, lambda node, s=shares: f"leaf | {_bits(s[node])}"
        )
    if model.oob_score:
        yield f"out of bag {_bits([model.oob_score_])} {show_array(model.oob_decision_function_)}"


def _boosting(model: Any) -> Iterator[str]:
    found = model.model_
    yield f"start {_bits(np.asarray(found.start) * _LEAF_UNIT)}"
    value = np.asarray(found.trees.value) * _LEAF_UNIT
    yield from _binned(found.trees, found.binning, model, lambda node: f"leaf | {_bits([value[node]])}")
    yield f"rounds {model.n_iter_} of {model.n_trees_per_iteration_}"


def _adaboost(model: Any) -> Iterator[str]:
    for one in model.estimators_:
        yield "estimator"
        yield from _form_of(one)(one)
    yield f"weights {_bits(model.estimator_weights_)}"
    yield f"errors {_bits(model.estimator_errors_)}"


# ---- rules


def _rules(model: Any) -> Iterator[str]:
    for rule, covered, right in zip(model.rules_, model.coverage_, model.accuracy_, strict=True):
        yield f"{rule} | {_bits([covered, right])}"
    yield f"otherwise {model.default_}"


_FORMS: tuple[tuple[Any, Callable[[Any], Iterator[str]]], ...] = (
    (al.DecisionTreeClassifier, _tree),
    (al.RandomForestClassifier | al.ExtraTreesClassifier, _forest),
    (al.GradientBoostingClassifier, _boosting),
    (al.AdaBoostClassifier, _adaboost),
    (al.RuleSetClassifier | al.RipperClassifier | al.SequentialCoveringClassifier, _rules),
)


# ---- models made of float sums


def project(values: Any) -> list[float]:
    """Return three numbers that stand for many: how many are finite, their sum, and a weighted sum."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    finite = np.where(np.isfinite(flat), flat, 0.0)
    weights = (np.arange(flat.shape[0]) * 37 % 11) - 5.0
    return [float(np.isfinite(flat).sum()), float(finite.sum()), float(finite @ weights)]


def measure(model: Any, X: Any) -> Numbers:
    """Return the numbers that a model of a float family, and its predictions, are compared by."""
    if isinstance(model, al.NaiveBayesClassifier | al.FullBayesClassifier):
        return _bayes_numbers(model, X)
    labels, is_sure = np.asarray(model.predict(X)).astype(str), _is_sure(model.decision_function(X))
    numbers = {
        "labels": show_labels(np.where(is_sure, labels, "?")),
        "objective": project(model.objective_)[1:],
        "support": [float(model.support_.shape[0])],
        "coefficients": [float(np.abs(model.dual_coef_).sum())],
        "decision": project(model.decision_function(X))[1:],
    }
    if isinstance(model, al.SVDD):
        numbers["radius"] = [float(model.radius_)]
    if getattr(model, "probability", False):
        numbers["shares"] = project(model.predict_proba(X))[1:]
    return numbers


def _is_sure(decision: Any) -> Any:
    """Tell which rows do not lie on a boundary, where rounding decides: support vectors do."""
    decision = np.asarray(decision, dtype=np.float64)
    if decision.ndim == 1:
        margin = np.abs(decision)
    else:
        ranked = np.sort(decision, axis=1)
        margin = ranked[:, -1] - ranked[:, -2]
    return margin > _BOUNDARY * np.abs(decision).max()


def _bayes_numbers(model: Any, X: Any) -> Numbers:
    tables = model.tables()
    numbers = {
        "labels": show_labels(model.predict(X)),
        "priors": project(tables.priors["prior"]),
        "numeric": project(tables.numeric["mean"] + tables.numeric["variance"]),
        "joint": project(model.predict_joint_log_proba(X)),
    }
    if tables.nominal["probability"]:
        numbers["counts"] = digest([show_array(np.float64(part)) for part in model._statistics[:2]])
        numbers["nominal"] = project(tables.nominal["probability"])
    if tables.covariance["covariance"]:
        numbers["covariance"] = project(tables.covariance["covariance"])
    return numbers
