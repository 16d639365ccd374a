"""A tolerance below what rounding allows ends, with a warning that states the gap."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import arraylearn as al
from arraylearn.svm.solvers.dual import Settings, StallRule
from tests.backends import rungs
from tests.svm.problems import two_class_data


def fit(rung, dtype, estimator, n):
    X, y = two_class_data("moons")
    rows = rung.from_host(X[:n], dtype)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        estimator.fit(rows, y[:n])
    return [each for each in record if issubclass(each.category, ConvergenceWarning)]


MACHINES = [
    al.SVC(solver="decomposition"),
    al.SVC(solver="dense"),
    al.SVC(kernel="linear", solver="newton"),
    al.SVC(kernel="poly", C=100.0),
    al.OneClassSVM(),
    al.SVDD(),
]


def where_quick(value):
    """Leave a case out where portable bodies take long for it: one machine stands for all there."""
    return pytest.param(value, marks=pytest.mark.rungs("host"))


@pytest.mark.parametrize("tol", [1e-9, where_quick(1e-18)])
@pytest.mark.parametrize("machine", [MACHINES[0], *map(where_quick, MACHINES[1:])], ids=str)
def test_every_solver_ends(rung, dtype, machine, tol):
    is_quick = rung.name in rungs.named("host")
    clf = machine.__class__(**machine.get_params()).set_params(tol=tol)
    said = fit(rung, dtype, clf, 300 if is_quick else 40)
    gap = float(np.max(clf.gap_))
    assert (gap > tol) == bool(said)
    for each in said:
        stated = re.search(
            r"gap of up to ([\d.e+-]+) > tol=[\d.e-]+: rounding allows no smaller", str(each.message)
        )
        assert float(stated[1]) == pytest.approx(gap, rel=1e-2)
    # what is there is as good as the dtype allows
    assert gap < (1e-8 if "float64" in rung.float_dtypes else 2e-2)


def test_max_iter_is_named_as_the_reason():
    X, y = two_class_data("moons")
    with pytest.warns(ConvergenceWarning, match=r"max_iter=3 was reached. Raise `max_iter`"):
        al.SVC(max_iter=3, solver="decomposition").fit(X, y)


def test_float32_rows_give_way_to_float64_ones():
    X, y = two_class_data("overlapping")
    clf = al.SVC(solver="decomposition", tol=1e-11).fit(X.astype(np.float32), y)
    assert clf.converged_.all()


def test_a_better_gap_or_a_larger_objective_is_no_stall():
    watch = StallRule(3)
    assert not any(watch.is_stalled(gap, 1.0) for gap in (8.0, 4.0, 2.0, 1.0))
    assert not any(watch.is_stalled(5.0, value) for value in (1.1, 1.2, 1.3, 1.4))
    assert [watch.is_stalled(0.95, 1.4) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("max_iter", "at_most_5", "after_3", "steps_of_10_rows"),
    [(-1, 5, -1, 10_000_000), (7, 5, 4, 7), (2, 2, 0, 2), (0, 0, 0, 0)],
)
def test_limits_of_steps(max_iter, at_most_5, after_3, steps_of_10_rows):
    settings = Settings(max_iter=max_iter)
    assert settings.at_most(5).max_iter == at_most_5
    assert settings.after(3).max_iter == after_3
    assert settings.step_limit(10) == steps_of_10_rows
