"""Tensors of torch on the CPU as input, beside the same rows in NumPy: reading them should cost nothing."""

from __future__ import annotations

from typing import Any

from arraylearn.backend.namespace import Place, from_host
from arraylearn.backend.selector import resolve
from arraylearn.bench.case import ACCURACY, Case, Race, Run, Size
from arraylearn.bench.cases.small_sets import PAIRS
from arraylearn.bench.data import Shape, curved

__all__ = ["CASES"]


def _case(name: str, learner: Any) -> Case:
    def prepare(shape: Shape, n_threads: int) -> Race:
        rows = curved(shape)

        def fit_and_predict(*arrays: Any) -> Run:
            X, y, X_new = arrays
            return lambda: (model := learner().fit(X, y), model.predict(X_new))

        def ours(place: Place) -> Run:
            there = resolve("torch")
            return fit_and_predict(*(from_host(array, there) for array in rows[:3]))

        peers = {"numpy": lambda: fit_and_predict(*rows[:3])}
        return Race(ours, peers, ACCURACY.judge(rows), input_bytes=rows.X.nbytes)

    shapes: dict[Size, Shape] = {"small": Shape(2000 if name == "SVC" else 10_000, 20)}
    return Case("torch_input", f"{name}: fit + predict", ("torch input",), shapes, ("numpy",), prepare)


CASES = [_case(name, ours) for name, (ours, _) in PAIRS.items()]
