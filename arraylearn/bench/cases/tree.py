"""Decision trees beside scikit-learn's: exact and binned growth, and prediction."""

from __future__ import annotations

from functools import partial

from arraylearn.bench.case import Case, Learners, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import curved
from arraylearn.bench.peers import peer_maker
from arraylearn.tree import DecisionTreeClassifier

__all__ = ["CASES"]

_shapes = partial(shapes_of, 10_000, 100_000, 1_000_000, 20)


_peer = partial(peer_maker, "sklearn.tree", "DecisionTreeClassifier", random_state=0)
_EXACT = Learners(lambda shape: DecisionTreeClassifier(splitter="exact"), {"scikit-learn": _peer()})


def _exact(name: str, bar: str, n_classes: int, n_values: int | None = None) -> Case:
    data = partial(curved, n_values=n_values)
    return learner_case("tree", name, _EXACT, bar=bar, shapes=_shapes(n_classes), data=data)


CASES = [
    _exact("exact tree, 2 classes", "exact tree", 2),
    _exact("exact tree, 3 classes", "exact tree", 3),
    _exact("exact tree, 10 classes", "exact tree, hard", 10),
    _exact("exact tree, 16 values", "exact tree, hard", 2, 16),
    learner_case(
        "tree",
        "binned tree, depth 8",
        Learners(
            lambda shape: DecisionTreeClassifier(splitter="hist", max_depth=8),
            {"scikit-learn": _peer(max_depth=8)},
        ),
        bar="binned tree",
        shapes=shapes_of(50_000, 200_000, 1_000_000, 20),
        data=curved,
    ),
    learner_case(
        "tree",
        "full tree",
        _EXACT,
        bar="tree prediction",
        shapes=_shapes(2),
        data=curved,
        task=TimedCalls("predict"),
    ),
]
