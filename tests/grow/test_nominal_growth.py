"""Nominal columns in compiled growth of single trees: the trees of the array program."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import arraylearn as al
from arraylearn.backend.dispatch import portable_only, use_compiled
from arraylearn.backend.threads import limited_threads
from arraylearn.grow import finder
from arraylearn.grow.histograms import bin_finder

pytest.importorskip("numba")

MEASURES = ("gini", "accuracy", "error", "chi2", "entropy", "gain_ratio", "symmetric_gain_ratio")


def draw_frame(seed, n, n_classes, sizes, missing=0.0, n_numeric=2):
    """Draw a frame with numeric columns between nominal ones of these numbers of categories."""
    rng = np.random.default_rng(seed)
    score, columns = np.zeros(n), {}
    for j, size in enumerate(sizes):
        codes = rng.integers(0, size, n)
        score += rng.normal(size=size)[codes]
        columns[f"c{j}"] = pd.Series(pd.Categorical.from_codes(codes, [f"v{i}" for i in range(size)]))
        columns[f"c{j}"][rng.random(n) < missing] = None
        if j < n_numeric:
            values = np.round(rng.normal(size=n), 1)
            score += values
            columns[f"x{j}"] = np.where(rng.random(n) < missing, np.nan, values).astype("float32")
    score += rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    return pd.DataFrame(columns), y, rng.integers(1, 4, n)


def assert_same_trees(monkeypatch, settings, X, y, weights=None):
    """Compare with the array program, and see that a body grew the tree."""
    served, choose = [], finder.choose_body

    def spy(*given, **named):
        served.append(choose(*given, **named))
        return served[-1]

    for module in (finder, bin_finder):
        monkeypatch.setattr(module, "choose_body", spy)
    with use_compiled("always"):
        found = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weights).tree_
    assert any(callable(body) for body in served), served
    with portable_only():
        expected = al.DecisionTreeClassifier(**settings).fit(X, y, sample_weight=weights).tree_
    for name, left, right in zip(found._fields, found, expected, strict=True):
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_array_equal(left, right, strict=True, err_msg=name)
    return found


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_mixed_tables(monkeypatch, measure, n_classes, missing):
    for n, depth, is_weighted in ((150, None, False), (900, 5, True), (500, None, True)):
        X, y, weights = draw_frame(n, n, n_classes, (2, 3, 7, 12), missing)
        for splitter in ("hist", "exact"):
            settings = {"criterion": measure, "splitter": splitter, "max_bins": 20, "nominal": "binary"}
            settings |= {"missing": "direction" if missing else "fractional", "max_depth": depth}
            tree = assert_same_trees(monkeypatch, settings, X, y, weights if is_weighted else None)
            assert np.any(tree.map_start >= 0) or measure == "gain_ratio"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n_numeric", [0, 1])
def test_mixed_categories(monkeypatch, threads, n_numeric):
    X, y, weights = draw_frame(3, 20_000, 2, (300, 40, 5), 0.05, n_numeric)
    with limited_threads(threads):
        settings = {"splitter": "hist", "nominal": "binary", "missing": "direction", "max_bins": 30}
        tree = assert_same_trees(monkeypatch, {**settings, "max_depth": 9}, X, y, weights)
        assert tree.n_nodes > 100
