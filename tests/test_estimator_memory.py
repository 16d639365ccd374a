"""An estimator that runs out of memory tries again with smaller chunks, and says so if that fails."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import arraylearn as al
from arraylearn.bayes import naive_classifier

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 0, 0, 1, 1, 1])


@pytest.fixture
def budgets(monkeypatch):
    """The budgets seen by the kernel, which fails for all above a limit that tests may set."""
    seen = []
    limit = [1 << 60]
    real = naive_classifier.joint_log_likelihood

    def hungry(*arguments, **options):
        seen.append(al.get_memory_budget())
        if seen[-1] > limit[0]:
            raise MemoryError("cannot allocate")
        return real(*arguments, **options)

    monkeypatch.setattr(naive_classifier, "joint_log_likelihood", hungry)
    return seen, limit


def test_prediction_is_repeated_with_half_the_budget(budgets):
    seen, limit = budgets
    model = al.NaiveBayesClassifier().fit(X, Y)
    expected = model.predict(X)
    whole = al.get_memory_budget()
    seen.clear()
    limit[0] = whole // 4
    np.testing.assert_array_equal(model.predict(X), expected)
    assert seen == [whole, whole // 2, whole // 4]
    assert al.get_memory_budget() == whole


def test_what_never_fits_is_reported(budgets):
    seen, limit = budgets
    model = al.NaiveBayesClassifier().fit(X, Y)
    limit[0] = 0
    with pytest.raises(al.MemoryBudgetError, match=r"even with temporaries cut down.*cannot allocate"):
        model.predict_proba(X)
    assert len(seen) == 6


def test_a_fit_that_never_fits_leaves_the_estimator_unfitted(monkeypatch):
    def full(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(al.NaiveBayesClassifier, "_take_statistics", full)
    model = al.NaiveBayesClassifier()
    with pytest.raises(al.MemoryBudgetError):
        model.fit(X, Y)
    assert not hasattr(model, "classes_")


def test_signatures_and_documentation_stay():
    assert "sample_weight" in inspect.signature(al.NaiveBayesClassifier.fit).parameters
    assert "Class labels" in al.NaiveBayesClassifier.fit.__doc__
