"""Resampling beside imbalanced-learn, where it is installed: the same counts, the same distributions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, ks_2samp

import arraylearn as al

over_sampling = pytest.importorskip("imblearn.over_sampling")
under_sampling = pytest.importorskip("imblearn.under_sampling")
pipeline = pytest.importorskip("imblearn.pipeline")


def skewed(n=900):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (n, 3)), rng.normal(2, 1, (60, 3)) * [1, 3, 0.5]])
    return X, np.repeat([0, 1], [n, 60])


NAMES = ["not minority", "not majority", "all"]
PAIRS = [
    (
        al.resample.RandomUnderSampler,
        under_sampling.RandomUnderSampler,
        ["auto", "majority", *NAMES, 0.5, {0: 100}],
    ),
    (
        al.resample.RandomOverSampler,
        over_sampling.RandomOverSampler,
        ["auto", "minority", *NAMES, 0.5, {1: 200}],
    ),
    (al.resample.SMOTE, over_sampling.SMOTE, ["auto", "minority", *NAMES, 0.5, {1: 200}]),
]


@pytest.mark.parametrize(
    ("ours", "theirs", "strategies"), PAIRS, ids=lambda part: getattr(part, "__name__", "")
)
def test_counts(ours, theirs, strategies):
    X, y = skewed()
    X, y = np.concatenate((X, X[:100] + 9)), np.concatenate((y, np.full(100, 2)))
    for strategy in strategies:
        if isinstance(strategy, float):  # a ratio is for two classes
            X, y = skewed()
        named, wanted = (
            kind(sampling_strategy=strategy).fit(X, y).sampling_strategy_ for kind in (ours, theirs)
        )
        unchanged = np.bincount(y) if ours is al.resample.RandomUnderSampler else np.zeros(3)
        assert named == {label: n for label, n in wanted.items() if n != unchanged[label]}
        found = ours(sampling_strategy=strategy, random_state=0).fit_resample(X, y)[1]
        expected = theirs(sampling_strategy=strategy, random_state=0).fit_resample(X, y)[1]
        np.testing.assert_array_equal(np.bincount(found), np.bincount(expected), err_msg=str(strategy))


def test_synthetic_numbers_have_the_same_distribution():
    X, y = skewed(3000)
    found = al.resample.SMOTE(random_state=0).fit_resample(X, y)[0][3060:]
    expected = over_sampling.SMOTE(random_state=0).fit_resample(X, y)[0][3060:]
    for column in range(3):
        assert ks_2samp(found[:, column], expected[:, column]).pvalue > 0.01
    # and so has the spread, which interpolation narrows
    np.testing.assert_allclose(found.std(axis=0), expected.std(axis=0), rtol=0.05)


def test_synthetic_categories_have_the_same_distribution():
    X, y = skewed(3000)
    rng = np.random.default_rng(1)
    kind = np.where(rng.random(3060) < 0.3 + 0.4 * (X[:, 0] > 2), "u", np.where(X[:, 1] > 0, "v", "w"))
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=pd.Categorical(kind))
    found = al.resample.SMOTE(random_state=0).fit_resample(frame, y)[0].iloc[3060:]
    expected = over_sampling.SMOTENC(["kind"], random_state=0).fit_resample(frame, y)[0].iloc[3060:]
    for column in "abc":
        assert ks_2samp(found[column], expected[column]).pvalue > 0.01
    both = [part["kind"].value_counts().reindex(["u", "v", "w"], fill_value=0) for part in (found, expected)]
    # a tie of categories goes to the nearest neighbour here, to a random one there
    shares = [counts / counts.sum() for counts in both]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.06)
    assert chi2_contingency(np.array(both) + 1).statistic < 200


def test_our_samplers_in_their_pipeline():
    X, y = skewed()
    model = pipeline.make_pipeline(al.resample.SMOTE(random_state=0), al.FullBayesClassifier())
    alone = al.resample.ResampledClassifier(al.FullBayesClassifier(), al.resample.SMOTE(random_state=0))
    found, expected = (al.evaluate(m, X, y, cv=3, refit=False) for m in (model, alone))
    np.testing.assert_array_equal(found.confusion, expected.confusion)


def test_the_smoothed_bootstrap_has_the_same_distribution():
    X, y = skewed()
    found, expected = (
        sampler(shrinkage=1.5, random_state=0).fit_resample(X, y)[0][960:]
        for sampler in (al.resample.RandomOverSampler, over_sampling.RandomOverSampler)
    )
    for j in range(3):
        assert ks_2samp(found[:, j], expected[:, j]).pvalue > 0.01
