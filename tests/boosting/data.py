"""Small data sets for the ensembles' tests."""

from __future__ import annotations

import numpy as np

__all__ = ["holes", "nominal_frame", "slopes", "stripes"]


def stripes(n=300, d=4, k=2, seed=0):
    """Classes in stripes of two columns; eighths, so that float32 and float64 hold the same numbers."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)) * 8) / 8
    y = (np.floor(X[:, 0] * 2) + np.floor(X[:, 1] * 2)).astype(int) % k
    noisy = rng.random(n) < 0.05
    y[noisy] = rng.integers(0, k, noisy.sum())
    return X, y


def slopes(n=300, d=4, seed=0):
    """Two classes: the second more likely along the first column, less along the second; eighths."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)) * 8) / 8
    scores = 2 * X[:, 0] - X[:, 1] - np.abs(X[:, 2])
    return X, (scores + rng.logistic(size=n) * 0.5 > -0.8).astype(int)


def holes(X, share=0.2, seed=1):
    """The same rows with missing values."""
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def nominal_frame(n=300, seed=0):
    """A column of numbers, a nominal one that decides, with missing values in both; as an object array."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefgh"))
    codes = rng.integers(0, 8, n)
    y = (np.isin(codes, [1, 3, 4, 6]) ^ (rng.random(n) < 0.05)).astype(int)
    X = np.empty((n, 2), dtype=object)
    X[:, 0] = np.round(rng.normal(size=n) * 8) / 8
    X[:, 1] = letters[codes]
    X[rng.random(n) < 0.1, 0] = None
    X[rng.random(n) < 0.1, 1] = None
    return X, y
