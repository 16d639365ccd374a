"""Decision trees beside scikit-learn's: exact and binned growth, and prediction."""

from __future__ import annotations

from functools import partial
from typing import Literal

from arraylearn.bench.case import Case, Learners, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import curved, mixed_rows
from arraylearn.bench.peers import peer_maker
from arraylearn.tree import DecisionTreeClassifier, c45

__all__ = ["CASES"]

_shapes = partial(shapes_of, 10_000, 100_000, 1_000_000, 20)


_peer = partial(peer_maker, "sklearn.tree", "DecisionTreeClassifier", random_state=0)
_EXACT = Learners(lambda shape: DecisionTreeClassifier(splitter="exact"), {"scikit-learn": _peer()})


def _exact(name: str, bar: str, n_classes: int, n_values: int | None = None) -> Case:
    data = partial(curved, n_values=n_values)
    return learner_case("tree", name, _EXACT, bars=(bar,), shapes=_shapes(n_classes), data=data)


def _by_criterion(name: str, splitter: Literal["exact", "hist"]) -> Case:
    """Declare a case whose peer is our own tree by Gini's criterion."""
    make = partial(DecisionTreeClassifier, splitter=splitter, max_depth=8)
    return learner_case(
        "tree",
        f"{splitter} tree, {name}, depth 8",
        Learners(lambda shape: make(criterion=name), {"gini": lambda shape, n_threads: make()}),
        bars=("criteria",),
        shapes=_shapes(2),
        data=curved,
    )


_OTHERS = ("entropy", "gain_ratio", "chi2", "error", "accuracy", "symmetric_gain_ratio")

CASES = [
    _exact("exact tree, 2 classes", "exact tree", 2),
    _exact("exact tree, 3 classes", "exact tree", 3),
    _exact("exact tree, 10 classes", "hard tree", 10),
    _exact("exact tree, 16 values", "hard tree", 2, 16),
    learner_case(
        "tree",
        "binned tree, depth 8",
        Learners(
            lambda shape: DecisionTreeClassifier(splitter="hist", max_depth=8),
            {"scikit-learn": _peer(max_depth=8)},
        ),
        bars=("binned tree",),
        shapes=shapes_of(50_000, 200_000, 1_000_000, 20),
        data=curved,
    ),
    learner_case(
        "tree",
        "full tree",
        _EXACT,
        bars=("tree prediction",),
        shapes=_shapes(2),
        data=curved,
        task=TimedCalls("predict"),
    ),
    *(_by_criterion(name, splitter) for splitter in ("exact", "hist") for name in _OTHERS),
    learner_case(
        "tree",
        "c45",
        # J48's own build time for rows of this kind
        Learners(lambda shape: c45(categorical_features=range(shape.n_columns // 2)), {}, {"J48": 65.0}),
        bars=("c45",),
        shapes=shapes_of(2000, 20_000, 100_000, 20, 4),
        data=mixed_rows,
    ),
]
