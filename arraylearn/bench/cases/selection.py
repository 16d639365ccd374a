"""Choosing and judging models: many fits in one call beside loops over single fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from arraylearn.backend.namespace import Place, from_host
from arraylearn.bayes import FullBayesClassifier, NaiveBayesClassifier
from arraylearn.bench.case import Case, Race, Run, Size, shapes_of
from arraylearn.bench.data import Shape, TrainTest, machine_rows, normal
from arraylearn.bench.peers import load_peer, peer_maker
from arraylearn.selection import GridSearch, evaluate, leave_one_out
from arraylearn.svm import SVC
from arraylearn.tree import DecisionTreeClassifier

__all__ = ["CASES"]

_DEPTHS = {"max_depth": [2, 3, 4, 5, 6, 8, 10, 12]}
_TREE = peer_maker("sklearn.tree", "DecisionTreeClassifier", random_state=0)
_LOOPED = 10  # rows that the loop of a leave-one-out is timed on


def _search(ours: Any, peer: Any, data: Any, grid_of: Callable[[Shape], dict[str, Any]]) -> Any:
    """Five folds of the values of a grid, without the final fit; ours beside scikit-learn's search."""

    def prepare(shape: Shape, n_threads: int) -> Race:
        rows, grid = data(shape), grid_of(shape)

        def search(place: Place) -> Run:
            X, y = from_host(rows.X, place), from_host(rows.y, place)
            return lambda: GridSearch(ours(), grid, cv=5, refit=False, verbose=0).fit(X, y)

        def peer_search() -> Run:
            kind = load_peer("sklearn.model_selection", "GridSearchCV")
            return lambda: kind(peer(shape, n_threads), grid, cv=5, refit=False).fit(rows.X, rows.y)

        return Race(search, {"libsvm" if ours is SVC else "scikit-learn": peer_search}, _best_score)

    return prepare


def _prices(shape: Shape) -> dict[str, Any]:
    return {"C": [0.1 * 10 ** (3 * i / 7) for i in range(8)], "gamma": [1.0 / shape.n_columns]}


def _best_score(search: Any) -> float:
    return float(search.cv_results_["mean_test_score"].max())


def _left_out(kind: Any) -> Any:
    def prepare(shape: Shape, n_threads: int) -> Race:
        """Leave each row out in turn; the loop does so for ten rows only, and its time is multiplied."""
        rows = normal(shape)

        def ours(place: Place) -> Run:
            X, y = from_host(rows.X, place), from_host(rows.y, place)
            return lambda: leave_one_out(kind(), X, y, refit=False, verbose=0)

        shares = {"loop": _LOOPED / shape.n_rows}
        return Race(ours, {"loop": lambda: _loop(kind, rows)}, _accuracy_of_all, shares)

    return prepare


def _accuracy_of_all(report: Any) -> float:
    """Judge by the accuracy over all rows; NaN for the loop, which stops after ten."""
    return float("nan") if len(report.errors) == _LOOPED else 1.0 - float(report.error)


def _loop(kind: Any, rows: TrainTest) -> Run:
    splitter = load_peer("sklearn.model_selection", "PredefinedSplit")
    fold = [i if i < _LOOPED else -1 for i in range(rows.X.shape[0])]
    options = {"cv": splitter(fold), "refit": False, "verbose": 0, "fast": False}
    return lambda: evaluate(kind(), rows.X, rows.y, **options)


_LEFT_OUT: dict[Size, Shape] = {
    "small": Shape(2000, 20, 3),
    "medium": Shape(10_000, 20, 3),
    "large": Shape(10_000, 50, 10),
}

CASES = [
    Case(
        "selection",
        "SVC: 5 folds x 8 prices",
        ("machine search",),
        shapes_of(500, 2000, 5000, 20),
        ("libsvm",),
        _search(SVC, peer_maker("sklearn.svm", "SVC"), machine_rows, _prices),
        n_rows=lambda shape: 5 * 8 * shape.n_rows,
        quality="best score",
    ),
    Case(
        "selection",
        "tree: 5 folds x 8 depths",
        (),
        shapes_of(2000, 10_000, 100_000, 20),
        ("scikit-learn",),
        _search(DecisionTreeClassifier, _TREE, normal, lambda shape: _DEPTHS),
        n_rows=lambda shape: 5 * 8 * shape.n_rows,
        quality="best score",
    ),
    *(
        Case("selection", f"leave-one-out, {name} Bayes", (), _LEFT_OUT, ("loop",), _left_out(kind))
        for name, kind in (("naive", NaiveBayesClassifier), ("full", FullBayesClassifier))
    ),
]
