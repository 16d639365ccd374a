"""Support vector machines beside LIBSVM and oneDAL; fits are judged by their dual objective."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from arraylearn.backend.namespace import to_host
from arraylearn.bench.case import Case, Learners, Quality, Size, TimedCalls, learner_case, shapes_of
from arraylearn.bench.data import Shape, TrainTest, machine_rows
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


def _fit(name: str, bar: str, shapes: dict[Size, Shape], kind: str, **settings: Any) -> Case:
    # at most a million pair steps: a peer that stops there looks faster than it is
    limited = {**settings, "max_iter": 1_000_000} if settings["kernel"] == "linear" else settings
    return learner_case(
        "svm",
        name,
        Learners(lambda shape: SVC(**settings), {"libsvm": _libsvm(**limited), "onedal": _onedal(**limited)}),
        bar=bar,
        shapes=shapes,
        data=partial(machine_rows, kind=kind),
        quality=Quality("dual objective", _objective(settings["kernel"])),
    )


def _inliers(rows: TrainTest) -> Callable[[Any], float]:
    return lambda machine: float((to_host(machine.predict(rows.X_new[:5000])) == 1).mean())


CASES = [
    *(
        _fit(
            f"gaussian, {kind}, C = {C:g}",
            "gaussian machine",
            shapes_of(2000, 5000, 20_000, d),
            kind,
            kernel="rbf",
            C=C,
        )
        for kind, d, C in (
            ("clusters", 20, 0.1),
            ("clusters", 20, 1.0),
            ("clusters", 20, 10.0),
            ("one-hot", 50, 1.0),
            ("moons", 10, 1.0),
        )
    ),
    *(
        _fit(
            f"linear, {kind}",
            "linear machine",
            shapes_of(2000, 5000, 10_000, d),
            kind,
            kernel="linear",
            C=1.0,
        )
        for kind, d in (("clusters", 20), ("moons", 10))
    ),
    learner_case(
        "svm",
        "gaussian, decision function",
        Learners(lambda shape: SVC(), {"libsvm": _libsvm(), "onedal": _onedal()}),
        bar="decision function",
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
        bar=None,
        shapes=shapes_of(2000, 5000, 20_000, 20),
        data=machine_rows,
        quality=Quality("share inside", _inliers),
    ),
]
