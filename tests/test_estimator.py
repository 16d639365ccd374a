"""The base of the estimators: how short the way to arrays is, and what is kept between predictions."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.namespace import HOST
from arraylearn.estimator import ArrayClassifier

PACKAGE = Path(al.__file__).parent
X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])
Y = np.array(["no", "no", "yes", "yes"])


class OnlyReads(ArrayClassifier):
    """Fits by reading its rows, so that all that `fit` enters is the way to arrays at the place."""

    def __init__(self, backend=None):
        self.backend = backend

    def fit(self, X, y):
        with self._fitting():
            self.model_, _ = self._open_fit(X, y)
        return self


def files_entered(call):
    entered = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered.add(str(path.relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


@pytest.mark.parametrize("labels", [Y, np.array([3, 3, 7, 7])])
def test_six_files_lead_from_fit_to_arrays(labels):
    assert files_entered(lambda: OnlyReads().fit(X, labels)) == {
        "estimator.py",
        "backend/namespace.py",
        "backend/selector.py",
        "table/labels.py",
        "table/read.py",
        "table/schema.py",
    }


def test_a_form_is_made_once_for_each_model():
    model, made = al.NaiveBayesClassifier().fit(X, Y), []

    def make():
        made.append(object())
        return made[-1]

    assert model._prepared_at(HOST, "form", make) is model._prepared_at(HOST, "form", make) is made[0]
    assert model._prepared_at(HOST, "other form", make) is made[1]
    model.model_ = model.model_._replace()
    assert model._prepared_at(HOST, "form", make) is made[2]
    assert len(made) == 3


def test_cache_lives_from_fit_to_fit_and_stays_out_of_copies():
    model = al.NaiveBayesClassifier().fit(X, Y)
    float32 = model._model_at(HOST, np.float32)
    assert float32.mean.dtype == np.float32
    assert model._model_at(HOST, np.float32) is float32
    assert model.fit(X, Y)._model_at(HOST, np.float32) is not float32
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not twin._cache
        np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("labels", [Y, np.array([3, 3, 7, 7])])
def test_labels_are_those_of_the_codes(labels):
    model = al.FullBayesClassifier(covariance="diagonal").fit(X, labels)
    assert model.predict(X).tolist() == labels.tolist()
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict([[np.nan, 0.0]])
