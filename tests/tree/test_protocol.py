"""What scikit-learn asks of every estimator, and what a GPU would feel."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import arraylearn as al


@parametrize_with_checks(
    [
        al.DecisionTreeClassifier(),
        al.DecisionTreeClassifier(measure="entropy", missing="direction"),
        al.cart(alpha=0.01),  # by cross-validation, repeated rows are not the same as weights
        al.c45(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def counted_fit(rung, n, d, n_classes, **settings):
    """Waits and launches per level of a fit of depth 5."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = (X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes))).argmax(axis=1)
    X_on = rung.from_host(X)
    estimator = al.DecisionTreeClassifier(max_depth=6, **settings)
    counts = []
    for depth in (2, 6):
        before = rung.counts()
        estimator.set_params(max_depth=depth).fit(X_on, y)
        after = rung.counts()
        counts.append({name: after[name] - before[name] for name in after})
    return {name: (counts[1][name] - counts[0][name]) / 4 for name in counts[0]}


@pytest.mark.parametrize("settings", [{}, {"measure": "entropy"}])
def test_waits_and_launches_per_level(rung, settings):
    if rung.counts() is None:
        pytest.skip("nothing is counted on this rung")
    few = counted_fit(rung, 300, 3, 2, **settings)
    many = counted_fit(rung, 2000, 12, 4, **settings)
    assert few["syncs"] <= 2
    assert many["syncs"] <= 2
    # a constant number, up to the few classes that are summed one by one
    assert many["launches"] <= few["launches"] + 20


def test_prediction_waits_once(rung):
    if rung.counts() is None:
        pytest.skip("nothing is counted on this rung")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    tree = al.DecisionTreeClassifier(missing="direction").fit(X, X[:, 0] > X[:, 1])
    X_on = rung.from_host(X)
    tree.predict(X_on)
    before = rung.counts()
    tree.predict(X_on)
    assert rung.counts()["syncs"] - before["syncs"] <= 1
