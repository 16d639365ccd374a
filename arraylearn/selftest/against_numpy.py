"""`arraylearn selftest`: a backend beside NumPy, kernel by kernel and learner by learner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.costs import OperationCounts, count_operations
from arraylearn.backend.namespace import HOST, Place, from_host, is_array, synchronize, to_host
from arraylearn.backend.selector import resolve
from arraylearn.selftest.cases import kernel_cases
from arraylearn.selftest.shown_learners import learners

__all__ = ["Comparison", "run_selftest"]

# Relative to the largest value: devices add in different orders.
_TOLERANCE = {"float64": 1e-8, "float32": 1e-3}


class Comparison(NamedTuple):
    """The result of one case."""

    name: str
    passed: bool
    difference: float  # largest relative difference from NumPy
    message: str
    counts: OperationCounts | None
    seconds: float


def run_selftest(backend: str) -> Iterator[Comparison]:
    """Run every kernel case and every learner on `backend` and on NumPy, and compare."""
    place = resolve(backend)
    for case in kernel_cases():
        inputs = case.make_inputs(0)
        yield _compare(
            case.name,
            place,
            lambda where, case=case, inputs=inputs: case.call(where.xp, **_copy_to(inputs, where)),  # type: ignore[misc]
        )
    for learner in learners():
        yield _compare(
            f"{learner.name} on {learner.data.name}",
            place,
            lambda where, learner=learner: _learn(learner, "numpy" if where is HOST else backend),  # type: ignore[misc]
        )


def _copy_to(inputs: dict[str, Any], place: Place) -> dict[str, Any]:
    return {name: from_host(x, place) if is_array(x) else x for name, x in inputs.items()}


def _learn(learner: Any, backend: str) -> tuple[Any, ...]:
    model = learner.make(backend=backend).fit(learner.data.X, learner.data.y)
    labels = model.predict(learner.data.X)
    codes = (labels[:, None] == model.classes_[None, :]).argmax(axis=1)
    if not hasattr(model, "predict_proba"):
        return (codes,)
    return codes, model.predict_proba(learner.data.X)


def _compare(name: str, place: Place, run: Callable[[Place], Any]) -> Comparison:
    expected = _as_tuple(run(HOST))
    try:
        run(place)  # compiles kernels, fills caches
        synchronize(place)
        start = time.perf_counter()
        with count_operations(place) as counts:
            found = _as_tuple(run(place))
        synchronize(place)
        seconds = time.perf_counter() - start
    except Exception as error:
        return Comparison(name, False, float("nan"), f"{type(error).__name__}: {error}", None, 0.0)
    differences = [_difference(one, other) for one, other in zip(found, expected, strict=True)]
    worst = max(differences, key=lambda pair: pair[0] / pair[1])
    passed = worst[0] <= worst[1]
    message = "" if passed else f"differs from NumPy by {worst[0]:.1e} (tolerance {worst[1]:.0e})"
    return Comparison(name, passed, worst[0], message, counts, seconds)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


def _difference(found: Any, expected: Any) -> tuple[float, float]:
    """Return the largest relative difference of two results and what is allowed."""
    one, other = to_host(found), to_host(expected)
    if one.shape != other.shape:
        return float("inf"), 1e-300
    if one.dtype.kind != "f":
        return (0.0 if bool((one == other).all()) else float("inf")), 1e-300
    tolerance = _TOLERANCE.get(one.dtype.name, 1e-3)
    same = (one == other) | ((one != one) & (other != other))  # equal, infinities and NaN included
    if bool(same.all()):
        return 0.0, tolerance
    gap = abs(one[~same].astype("float64") - other[~same].astype("float64")).max()
    finite = abs(other[np.isfinite(other)].astype("float64"))
    scale = float(finite.max()) if finite.size else 0.0
    difference = float(gap) / max(scale, 1e-300)
    return (difference if difference == difference else float("inf")), tolerance
