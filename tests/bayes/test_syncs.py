"""How often the host syncs with the device, beyond what the contract asks."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al

pytestmark = pytest.mark.rungs("syncs")


def syncs(rung, work):
    before = rung.counts()
    work()
    return rung.counts()["syncs"] - before["syncs"]


@pytest.fixture
def rows(rung):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 6)) + y[:, None]
    X[:, 3:] = rng.integers(0, 4, (90, 3))
    return rung.from_host(X), rung.from_host(y), rung.from_host(rng.random(90))


def test_mixed_attributes_with_weights(rung, rows):
    x, y, weights = rows
    model = al.NaiveBayesClassifier(categorical_features=[3, 4, 5])
    model.fit(x, y, sample_weight=weights)
    assert syncs(rung, lambda: model.fit(x, y, sample_weight=weights)) <= 2
    assert syncs(rung, lambda: model.partial_fit(x, y, sample_weight=weights)) <= 2
    for method in (
        model.predict,
        model.predict_proba,
        model.predict_log_proba,
        model.decision_function,
        model.explain,
    ):
        assert syncs(rung, lambda method=method: method(x)) <= 1


def test_numeric_attributes_with_weights(rung, rows):
    x, y, weights = rows
    for model in (
        al.NaiveBayesClassifier(),
        al.FullBayesClassifier(),
        al.FullBayesClassifier(shrinkage="auto"),
    ):
        model.fit(x, y, sample_weight=weights)
        assert syncs(rung, lambda model=model: model.fit(x, y, sample_weight=weights)) <= 2
        assert syncs(rung, lambda model=model: model.partial_fit(x, y, sample_weight=weights)) <= 2
        assert syncs(rung, lambda model=model: model.explain(x)) <= 1


def test_a_singular_class_costs_no_further_sync(rung, rows):
    x, y, _ = rows
    twice = rung.load().concat((x, x[:, :1]), axis=1)
    model = al.FullBayesClassifier()
    with pytest.warns(al.bayes.SingularCovarianceWarning):
        model.fit(twice, y)
    with pytest.warns(al.bayes.SingularCovarianceWarning):
        assert syncs(rung, lambda: model.fit(twice, y)) <= 2


@pytest.mark.rungs("launches")
def test_launches_do_not_grow_with_classes_and_columns(rung):
    rng = np.random.default_rng(0)
    found = {}
    for d, k in ((4, 2), (40, 12)):
        x, y = rung.from_host(rng.normal(size=(240, d))), rung.from_host(np.arange(240) % k)
        codes = rung.from_host(rng.integers(0, 3, (240, d)).astype(float))
        numeric = al.NaiveBayesClassifier().fit(x, y)
        nominal = al.NaiveBayesClassifier(categorical_features=range(d)).fit(codes, y)
        for name, work in {
            "fit": lambda: numeric.fit(x, y),  # noqa: B023
            "predict": lambda: numeric.predict(x),  # noqa: B023
            "fit nominal": lambda: nominal.fit(codes, y),  # noqa: B023
            "predict nominal": lambda: nominal.predict(codes),  # noqa: B023
        }.items():
            before = rung.counts()["launches"]
            work()
            found.setdefault(name, []).append(rung.counts()["launches"] - before)
    for name, (few, many) in found.items():
        assert many <= few + 3, f"{name}: {few} launches for 4 columns and 2 classes, {many} for 40 and 12"
