"""Support vector machines beside LIBSVM and oneDAL; fits are judged by their dual objective."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from arraylearn.backend.namespace import to_host
from arraylearn.bench.case import Case, Learners, Quality, Size, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import Shape, TrainTest, known_set, machine_rows
from arraylearn.bench.peers import peer_maker
from arraylearn.kernels import gram
from arraylearn.svm import SVC, OneClassSVM

__all__ = ["CASES"]


_libsvm = partial(peer_maker, "sklearn.svm", "SVC")
_onedal = partial(peer_maker, "sklearnex.svm", "SVC")


def _objective(kernel: str) -> Callable[[TrainTest], Callable[[Any], float]]:
    """Judge by the dual objective of a two-class machine, in float64; larger is better."""

    def judged_on(rows: TrainTest) -> Callable[[Any], float]:
        def judge(machine: Any) -> float:
            support = to_host(machine.support_)
            beta, X = to_host(machine.dual_coef_)[0], rows.X[support]
            sign = 2.0 * rows.y[support] - 1.0
            gamma = 1.0 / (rows.X.shape[1] * float(rows.X.var()))
            quadratic = sum(
                float(beta[i : i + 500] @ (gram(X[i : i + 500], X, kernel=kernel, gamma=gamma) @ beta))
                for i in range(0, len(beta), 500)
            )
            return float(beta @ sign - 0.5 * quadratic)

        return judge

    return judged_on


def _fit(kernel: str, kind: str, n_columns: int, C: float) -> Case:
    limits: dict[str, Any] = {}
    settings: dict[str, Any] = {"kernel": kernel, "C": C}
    name, largest = f"gaussian, {kind}, C = {C:g}", 20_000
    bars = ("gaussian machine", "steep machine") if C == 10 else ("gaussian machine",)
    if kernel == "linear":
        # at most a million pair steps: a peer that stops there looks faster than it is
        name, bars, largest = f"linear, {kind}", ("linear machine",), 10_000
        limits = {"max_iter": 1_000_000}
    peers = {"libsvm": _libsvm(**settings, **limits), "onedal": _onedal(**settings, **limits)}
    return learner_case(
        "svm",
        name,
        Learners(lambda shape: SVC(**settings), peers),
        bars=bars,
        shapes=shapes_of(2000, 5000, largest, n_columns),
        data=partial(machine_rows, kind=kind),
        quality=Quality("dual objective", _objective(kernel)),
    )


_DIGITS: dict[Size, Shape] = {"small": Shape(1200, 64, 10)}


def _inliers(rows: TrainTest) -> Callable[[Any], float]:
    return lambda machine: float((to_host(machine.predict(rows.X_new[:5000])) == 1).mean())


CASES = [
    _fit("rbf", "clusters", 20, 0.1),
    _fit("rbf", "clusters", 20, 1.0),
    _fit("rbf", "clusters", 20, 10.0),
    _fit("rbf", "one-hot", 50, 1.0),
    _fit("rbf", "moons", 10, 1.0),
    _fit("linear", "clusters", 20, 1.0),
    _fit("linear", "moons", 10, 1.0),
    *(
        learner_case(
            "svm",
            f"gaussian, {name}",
            Learners(lambda shape: SVC(), {"libsvm": _libsvm()}),
            bars=("many classes",),
            shapes=shapes,
            data=data,
        )
        for name, shapes, data in (
            ("digits", _DIGITS, known_set),
            ("26 classes", shapes_of(2000, 5000, 15_000, 16, 26), machine_rows),
        )
    ),
    learner_case(
        "svm",
        "gaussian, decision function",
        Learners(lambda shape: SVC(), {"libsvm": _libsvm(), "onedal": _onedal()}),
        bars=("decision function",),
        shapes=shapes_of(1000, 2000, 5000, 20),
        data=machine_rows,
        task=TimedCalls(
            "predict", "decision_function", lambda shape: 20_000 if shape.n_rows < 2000 else 100_000
        ),
    ),
    learner_case(
        "svm",
        "one-class, gaussian",
        Learners(
            lambda shape: OneClassSVM(nu=0.1), {"libsvm": peer_maker("sklearn.svm", "OneClassSVM", nu=0.1)}
        ),
        bars=(),
        shapes=shapes_of(2000, 5000, 20_000, 20),
        data=machine_rows,
        quality=Quality("share inside", _inliers),
    ),
]
