"""AdaBoost: scikit-learn's numbers, any weighted classifier, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier as Peer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier as PeerTree

import arraylearn as al
from tests.boosting.data import nominal_frame, stripes


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("depth", [1, 2])
def test_against_scikit_learn(k, depth):
    X, y = stripes(300, k=k)
    rng = np.random.default_rng(3)
    X = X + rng.normal(size=X.shape) * 1e-3  # no ties between columns
    weights = rng.uniform(1, 2, size=300)  # nor between cuts, of which scikit-learn takes any
    base = al.DecisionTreeClassifier(max_depth=depth)
    model = al.AdaBoostClassifier(base, n_estimators=6, learning_rate=0.7).fit(X, y, weights)
    peer = Peer(PeerTree(max_depth=depth, random_state=0), n_estimators=6, learning_rate=0.7)
    peer.fit(X, y, weights)
    np.testing.assert_allclose(model.estimator_errors_, peer.estimator_errors_)
    np.testing.assert_allclose(model.estimator_weights_, peer.estimator_weights_)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


def test_the_same_on_every_backend(rung):
    X, y = stripes(150, k=3)
    X = X.astype(np.float32)
    reference = al.AdaBoostClassifier(n_estimators=3).fit(X, y)
    model = al.AdaBoostClassifier(n_estimators=3).fit(rung.from_host(X), rung.from_host(y))
    np.testing.assert_array_equal(model.estimator_errors_, reference.estimator_errors_)
    queries = rung.from_host(X)
    np.testing.assert_array_equal(rung.to_host(model.predict(queries)), reference.predict(X))


def test_first_weights_by_hand():
    X, y = np.arange(12.0)[:, None], np.array([0] * 4 + [1] * 4 + [0] * 4)
    model = al.AdaBoostClassifier(n_estimators=1).fit(X, y)
    assert model.estimator_errors_[0] == pytest.approx(1 / 3)
    assert model.estimator_weights_[0] == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    "base", [al.NaiveBayesClassifier(), GaussianNB(), al.DecisionTreeClassifier(max_depth=3)]
)
def test_any_weighted_classifier(base):
    X, y = stripes(400, k=3)
    model = al.AdaBoostClassifier(base, n_estimators=10).fit(X, y)
    assert model.score(X, y) > base.fit(X, y).score(X, y) - 0.02
    assert 1 <= len(model.estimators_) <= 10


def test_nominal_columns_and_missing_values():
    X, y = nominal_frame()
    model = al.AdaBoostClassifier(al.DecisionTreeClassifier(max_depth=2), n_estimators=5).fit(X, y)
    assert model.score(X, y) > al.DecisionTreeClassifier(max_depth=1).fit(X, y).score(X, y)
    assert model.feature_importances_.argmax() == 1


def test_stages_end_at_the_whole():
    X, y = stripes(200, k=3)
    model = al.AdaBoostClassifier(n_estimators=5).fit(X, y)
    labels, shares = list(model.staged_predict(X)), list(model.staged_predict_proba(X))
    assert len(labels) == len(shares) == len(model.estimators_)
    np.testing.assert_array_equal(labels[-1], model.predict(X))
    np.testing.assert_array_equal(shares[-1], model.predict_proba(X))
    decisions, scores = list(model.staged_decision_function(X)), list(model.staged_score(X, y))
    np.testing.assert_array_equal(decisions[-1], model.decision_function(X))
    assert scores == [(found == y).mean() for found in labels]
    weight = np.arange(200.0)
    *_, weighted = model.staged_score(X, y, weight)
    assert weighted == pytest.approx(model.score(X, y, weight))


def test_a_perfect_round_is_the_last():
    X, y = np.arange(10.0)[:, None], np.arange(10) >= 5
    model = al.AdaBoostClassifier(n_estimators=10).fit(X, y)
    assert len(model.estimators_) == 1
    assert model.estimator_errors_.tolist() == [0.0]


def test_progress(capsys):
    X, y = stripes(100)
    al.AdaBoostClassifier(n_estimators=3, verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert "3/3" in shown
    assert "error 0." in shown


def test_bad_input():
    X, y = stripes(40)
    with pytest.raises(ValueError, match="`n_estimators` must be an integer of at least 1; got 0"):
        al.AdaBoostClassifier(n_estimators=0).fit(X, y)
    with pytest.raises(ValueError, match="`learning_rate` must be a finite number above 0"):
        al.AdaBoostClassifier(learning_rate=-1).fit(X, y)
    with pytest.raises(
        ValueError, match=r"`estimator` must learn from weighted rows.*got KNeighborsClassifier"
    ):
        al.AdaBoostClassifier(KNeighborsClassifier()).fit([[0], [1]], [0, 1])
    with pytest.raises(ValueError, match="all weights are zero"):
        al.AdaBoostClassifier().fit(X, y, sample_weight=np.zeros(40))
    with pytest.raises(ValueError, match="better than guessing"):
        al.AdaBoostClassifier().fit(np.ones((40, 2)), np.arange(40) % 2)
