"""Warnings point at the line of the user's that led to them, from however deep."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import arraylearn as al
from arraylearn.progress import warn_of_cost
from arraylearn.svm import svc

X = np.arange(24.0).reshape(12, 2)
Y = np.arange(12) % 2
NOISE = np.random.default_rng(0).normal(size=(300, 3))
SIDE = NOISE[:, 0] * NOISE[:, 1] > 0


CASES = {
    "labels in a column": lambda: al.NaiveBayesClassifier().fit(X, Y[:, None]),
    "undefined variance": lambda: al.NaiveBayesClassifier().fit(X[:3], [0, 0, 1]),
    "undefined variance, diagonal": lambda: al.FullBayesClassifier(covariance="diagonal").fit(
        X[:4], [0, 0, 0, 1]
    ),
    "singular covariance": lambda: al.FullBayesClassifier().fit(X, Y),
    "no convergence": lambda: al.SVC(max_iter=1, C=100.0, solver="decomposition").fit(NOISE, SIDE),
    "out-of-bag rows": lambda: al.RandomForestClassifier(n_estimators=2, oob_score=True, random_state=0).fit(
        X, Y
    ),
    "unknown categories": lambda: al.RuleSetClassifier(["x0 = 7 -> 1"], categorical_features=[0]).fit(X, Y),
    "failed candidate": lambda: al.GridSearch(al.SVC(), {"C": [1.0, -1.0]}, cv=2).fit(X, Y),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_line_is_the_callers(case):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        case()
    assert __file__ in {warning.filename for warning in found}


def test_the_fallback_is_told_at_the_callers_line(monkeypatch):
    monkeypatch.setattr("arraylearn.backend.selector._warned", set())
    with pytest.warns(al.BackendFallbackWarning) as found, al.use_backend("cupy:9", fallback="numpy"):
        pass
    assert found[0].filename == __file__


@pytest.mark.parametrize(
    ("seconds", "told"), [(120, "about 2 minutes"), (5_399, "about 90 minutes"), (36_000, "about 10 hours")]
)
def test_cost_is_told_from_two_minutes_on(seconds, told):
    with pytest.warns(al.LongRunWarning, match=f"Learner will take {told} .* Do less.") as found:
        warn_of_cost("Learner", seconds, "Do less.")
    assert found[0].filename == __file__


def test_a_machine_of_many_rows_tells_its_cost_before_it_begins(monkeypatch):
    def stop(*given):
        raise InterruptedError

    monkeypatch.setattr(svc, "solve_tasks", stop)
    X = np.arange(200_000.0)[:, None]
    told = pytest.warns(al.LongRunWarning, match="SVC .* 3 minutes .* kernel='linear'")
    with told as found, pytest.raises(InterruptedError):
        al.SVC().fit(X, X[:, 0] > 9)
    assert found[0].filename == __file__
    for model, n in ((al.SVC(kernel="linear"), 200_000), (al.SVC(), 150_000)):
        with pytest.raises(InterruptedError):
            model.fit(X[:n], X[:n, 0] > 9)
