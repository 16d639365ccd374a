"""What a benchmark case is: data, ours on any backend, the peers, and how the results are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.bench.data import Rows, Shape

__all__ = ["SIZES", "Case", "Contest", "Size", "learner_case"]

Size = Literal["small", "medium", "large"]
SIZES: tuple[Size, ...] = ("small", "medium", "large")
Run = Callable[[], Any]
Job = Literal["fit", "predict", "fit + predict"]


class Contest(NamedTuple):
    """One case, ready to run."""

    ours: Callable[[Place], Run]  # brings the data to a place and returns what is timed there
    peers: Mapping[str, Callable[[], Run]]  # the same for each peer, on the host
    judge: Callable[[Any], float] | None  # a run's result -> its quality; NaN where that says nothing
    shares: Mapping[str, float] = {}  # of the work, for a peer that does only a part of it


@dataclass(frozen=True)
class Case:
    """A declared benchmark."""

    family: str
    name: str
    bar: str | Mapping[Size, str] | None  # key of `bars.BARS`, for all sizes or for each; or no bar
    shapes: Mapping[Size, Shape]
    peers: tuple[str, ...]
    prepare: Callable[[Shape, int], Contest]  # with the number of threads
    n_rows: Callable[[Shape], int] = lambda shape: shape.n_rows  # that one run works on
    quality: str = "accuracy"
    host_only: bool = False  # whether it computes on the host whatever the backend

    def bar_of(self, size: Size) -> str | None:
        """Return the key of the bar at a size."""
        return self.bar[size] if isinstance(self.bar, Mapping) else self.bar


def learner_case(
    family: str,
    name: str,
    *,
    bar: str | Mapping[Size, str] | None,
    shapes: Mapping[Size, Shape],
    data: Callable[[Shape], Rows],
    ours: Callable[[Shape], Any],
    peers: Mapping[str, Callable[[Shape, int], Any]],
    job: Job = "fit",
    method: str = "predict",
    quality: str = "accuracy",
    judge: Callable[[Rows], Callable[[Any], float]] | None = None,
    n_queries: Callable[[Shape], int] | None = None,
) -> Case:
    """Declare a case of classifiers: fit, predict new rows by `method`, or both.

    `ours` and `peers` make unfitted classifiers; peers also take the number of threads. A fit is judged by
    its accuracy on new rows unless `judge` says otherwise; `n_queries` repeats the new rows to so many.
    """

    def prepare(shape: Shape, n_threads: int) -> Contest:
        rows = data(shape)
        queries = rows.X_new if n_queries is None else _repeated(rows.X_new, n_queries(shape))

        def make_run(model: Any, X: Any, y: Any, new: Any) -> Run:
            if job == "fit":
                return lambda: model().fit(X, y)
            if job == "predict":
                fitted = model().fit(X, y)
                predict = getattr(fitted, method)
                return lambda: (fitted, predict(new))
            return lambda: (fitted := model().fit(X, y), getattr(fitted, method)(new))

        def bring(place: Place) -> Run:
            arrays = (from_host(array, place) for array in (rows.X, rows.y, queries))
            return make_run(lambda: ours(shape), *arrays)

        def peer(make: Callable[[Shape, int], Any]) -> Callable[[], Run]:
            return lambda: make_run(lambda: make(shape, n_threads), rows.X, rows.y, queries)

        return Contest(
            bring,
            {name: peer(make) for name, make in peers.items()},
            _accuracy(rows) if judge is None else judge(rows),
        )

    def n_rows(shape: Shape) -> int:
        n_asked = (n_queries or _new_rows)(shape)
        return {"fit": shape.n_rows, "predict": n_asked, "fit + predict": shape.n_rows + n_asked}[job]

    return Case(family, f"{name}: {job}", bar, shapes, tuple(peers), prepare, n_rows, quality)


def _new_rows(shape: Shape) -> int:
    return max(1000, min(shape.n_rows, 50_000))


def _repeated(X: Any, n: int) -> Any:
    return X[[i % X.shape[0] for i in range(n)]] if n != X.shape[0] else X


def _accuracy(rows: Rows) -> Callable[[Any], float]:
    """Judge a fitted classifier, alone or first in a pair, by its accuracy on up to 20,000 new rows."""

    def judge(result: Any) -> float:
        model = result[0] if isinstance(result, tuple) else result
        found = to_host(model.predict(rows.X_new[:20_000]))
        return float((found == rows.y_new[:20_000]).mean())

    return judge
