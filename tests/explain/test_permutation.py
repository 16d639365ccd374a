"""Permutation importances: scikit-learn's in expectation, the same everywhere, for any rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.inspection import permutation_importance as peer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss

import arraylearn as al
from tests.boosting.data import nominal_frame, stripes


def rows(n=400, seed=0):
    """Two columns that matter, the first most, and one that does not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize(
    "model", [al.RandomForestClassifier(n_estimators=10, random_state=0), al.NaiveBayesClassifier()]
)
def test_as_scikit_learn_in_the_mean(model):
    X, y = rows()
    new, truth = rows(seed=1)
    model.fit(X, y)
    ours = model.permutation_importance(new, truth, n_repeats=60, random_state=0)
    theirs = peer(model, new, truth, n_repeats=60, random_state=1)
    error = np.sqrt((ours.importances_std**2 + theirs.importances_std**2) / 60) + 1e-3
    assert (np.abs(ours.importances_mean - theirs.importances_mean) < 4 * error).all()
    np.testing.assert_allclose(ours.importances_std, theirs.importances_std, rtol=0.5, atol=2e-3)
    assert ours.importances.shape == (3, 60)
    np.testing.assert_allclose(ours.importances.mean(axis=1), ours.importances_mean)
    assert ours.importances_mean[0] > ours.importances_mean[1] > 0.05 > abs(ours.importances_mean[2])


def test_by_hand():
    X, y = rows(30)
    model = LogisticRegression().fit(X, y)  # any classifier
    found = al.permutation_importance(model, X, y, n_repeats=1, random_state=3)
    order = np.random.default_rng(3).permutation(30)
    shuffled = X.copy()
    shuffled[:, 1] = X[order, 1]
    wanted = model.score(X, y) - model.score(shuffled, y)
    assert found.importances[1, 0] == pytest.approx(wanted)
    found = al.permutation_importance(model, X, y, n_repeats=1, random_state=3, scoring="neg_log_loss")
    wanted = log_loss(y, model.predict_proba(shuffled)) - log_loss(y, model.predict_proba(X))
    assert found.importances[1, 0] == pytest.approx(wanted)


def test_weights_and_scores_of_ones_own():
    X, y = rows(200)
    model = al.NaiveBayesClassifier().fit(X, y)
    weights = np.where(X[:, 2] > 0, 1.0, 0.0)
    weighed = al.permutation_importance(model, X, y, sample_weight=weights, random_state=0)
    scored = al.permutation_importance(
        model, X, y, scoring=lambda model, X, y: model.score(X, y, sample_weight=weights), random_state=0
    )
    np.testing.assert_allclose(weighed.importances, scored.importances)
    same = al.permutation_importance(
        model, X, y, scoring=get_scorer("accuracy"), sample_weight=weights, n_jobs=2, random_state=0
    )
    np.testing.assert_allclose(weighed.importances, same.importances)
    plain = al.permutation_importance(model, X, y, random_state=0)
    assert not np.allclose(weighed.importances, plain.importances)


def test_the_same_on_every_backend(rung):
    X, y = stripes(80, k=3)
    X = X.astype(np.float32)
    model = al.DecisionTreeClassifier(max_depth=4).fit(X, y)
    reference = model.permutation_importance(X, y, n_repeats=2, random_state=0)
    moved = rung.from_host(X)
    found = model.permutation_importance(moved, rung.from_host(y), n_repeats=2, random_state=0)
    np.testing.assert_array_equal(found.importances, reference.importances)
    np.testing.assert_array_equal(rung.to_host(moved), X)  # left alone


@pytest.mark.parametrize("library", [pd, pl])
def test_data_frames(library):
    X, y = nominal_frame(300)
    frame = pd.DataFrame({"number": X[:, 0].astype(float), "letter": X[:, 1]})
    frame = frame if library is pd else pl.from_pandas(frame)
    model = al.RandomForestClassifier(n_estimators=5, random_state=0).fit(frame, y)
    found = model.permutation_importance(frame, y, random_state=0)
    assert found.importances_mean[1] > 0.2 > found.importances_mean[0]
    np.testing.assert_array_equal(
        found.importances,
        al.RandomForestClassifier(n_estimators=5, random_state=0)
        .fit(X, y)
        .permutation_importance(X, y, random_state=0)
        .importances,
    )


def test_bad_input():
    X, y = rows(20)
    model = al.NaiveBayesClassifier().fit(X, y)
    with pytest.raises(ValueError, match="`n_repeats` must be an integer of at least 1; got 0"):
        model.permutation_importance(X, y, n_repeats=0)
    with pytest.raises(ValueError, match="one class per row; got 19 for 20 rows"):
        model.permutation_importance(X, y[:19])
    with pytest.raises(ValueError, match="all weights are zero"):
        model.permutation_importance(X, y, sample_weight=np.zeros(20))
    with pytest.raises(ValueError, match="`n_jobs` must be"):
        al.permutation_importance(model, X, y, n_jobs=0)
