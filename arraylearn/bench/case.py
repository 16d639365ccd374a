"""What a benchmark case is: data, ours on any backend, the peers, and how the results are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.bench.data import Shape, TrainTest, n_new_rows

__all__ = [
    "ACCURACY",
    "FIT",
    "SIZES",
    "Case",
    "Learners",
    "Quality",
    "Race",
    "Size",
    "TimedCalls",
    "learner_case",
    "shapes_of",
]

Size = Literal["small", "medium", "large"]
SIZES: tuple[Size, ...] = ("small", "medium", "large")
Run = Callable[[], Any]


def shapes_of(small: int, medium: int, large: int, n_columns: int, n_classes: int = 2) -> dict[Size, Shape]:
    """Return the shape of each size, from its number of rows.

    >>> shapes_of(100, 1000, 10_000, 5)["medium"]
    Shape(n_rows=1000, n_columns=5, n_classes=2)
    """
    return {
        n: Shape(rows, n_columns, n_classes) for n, rows in zip(SIZES, (small, medium, large), strict=True)
    }


class Race(NamedTuple):
    """One case, ready to run."""

    ours: Callable[[Place], Run]  # copies the data to a place and returns the call to time there
    peers: Mapping[str, Callable[[], Run]]  # the same for each peer, on the host
    judge: Callable[[Any], float] | None  # result of a run -> its quality, NaN if it cannot be judged
    shares: Mapping[str, float] = {}  # peer -> the part of the work that it does, if not all of it
    recorded: Mapping[str, float] = {}  # what stands for a peer that is not run -> its seconds
    input_bytes: int = 0


@dataclass(frozen=True)
class Case:
    """A declared benchmark."""

    family: str
    name: str
    bars: tuple[str, ...]  # keys of `bars.BARS`
    shapes: Mapping[Size, Shape]  # a case need not have all sizes
    peers: tuple[str, ...]
    prepare: Callable[[Shape, int], Race]  # (shape, number of threads) -> what to run
    n_rows: Callable[[Shape], int] = lambda shape: shape.n_rows  # rows that one run processes
    quality: str = "accuracy"
    host_only: bool = False  # whether it computes on the host whatever the backend


class Learners(NamedTuple):
    """Ours and the peers' unfitted classifiers."""

    ours: Callable[[Shape], Any]
    peers: Mapping[str, Callable[[Shape, int], Any]]  # (shape, number of threads) -> classifier
    recorded: Mapping[str, float] = MappingProxyType({})  # seconds for the largest table, see `Race`


class TimedCalls(NamedTuple):
    """Which calls are timed."""

    job: Literal["fit", "predict", "fit + predict"] = "fit"
    method: str = "predict"  # that answers for new rows
    n_queries: Callable[[Shape], int] = lambda shape: n_new_rows(shape.n_rows)  # new rows, repeated if needed

    def n_rows(self, shape: Shape) -> int:
        """Return how many rows one run processes."""
        n_fitted = shape.n_rows if "fit" in self.job else 0
        return n_fitted + (self.n_queries(shape) if "predict" in self.job else 0)

    def start(self, model: Any, X: Any, y: Any, queries: Any) -> Run:
        """Return the call to time; a fit that only prepares a prediction is done here."""
        if self.job == "fit":
            return lambda: model().fit(X, y)
        if self.job == "predict":
            fitted = model().fit(X, y)
            predict = getattr(fitted, self.method)
            return lambda: (fitted, predict(queries))
        return lambda: (fitted := model().fit(X, y), getattr(fitted, self.method)(queries))


class Quality(NamedTuple):
    """A figure beside the time, for which more is better."""

    name: str
    judge: Callable[[TrainTest], Callable[[Any], float]]  # rows -> (result of a run -> figure)


def _accuracy(rows: TrainTest) -> Callable[[Any], float]:
    """Judge a fitted classifier, alone or first in a pair, by its accuracy on up to 20,000 new rows."""

    def judge(result: Any) -> float:
        model = result[0] if isinstance(result, tuple) else result
        found = to_host(model.predict(rows.X_new[:20_000]))
        return float((found == rows.y_new[:20_000]).mean())

    return judge


FIT = TimedCalls()
ACCURACY = Quality("accuracy", _accuracy)


def learner_case(
    family: str,
    name: str,
    learners: Learners,
    *,
    bars: Sequence[str],
    shapes: Mapping[Size, Shape],
    data: Callable[[Shape], TrainTest],
    task: TimedCalls = FIT,
    quality: Quality = ACCURACY,
) -> Case:
    """Declare a case of classifiers on generated rows."""

    def prepare(shape: Shape, n_threads: int) -> Race:
        rows = data(shape)
        queries = np.resize(rows.X_new, (task.n_queries(shape), shape.n_columns))  # repeated if need be

        def ours(place: Place) -> Run:
            arrays = (from_host(array, place) for array in (rows.X, rows.y, queries))
            return task.start(lambda: learners.ours(shape), *arrays)

        def peer(make: Callable[[Shape, int], Any]) -> Callable[[], Run]:
            return lambda: task.start(lambda: make(shape, n_threads), rows.X, rows.y, queries)

        peers = {label: peer(make) for label, make in learners.peers.items()}
        known = learners.recorded if shape == shapes.get("large", shape) else {}
        return Race(ours, peers, quality.judge(rows), recorded=known, input_bytes=rows.X.nbytes)

    about = f"{name}: {task.job}"
    return Case(family, about, tuple(bars), shapes, tuple(learners.peers), prepare, task.n_rows, quality.name)
