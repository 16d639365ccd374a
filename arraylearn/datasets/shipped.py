"""The tables that scikit-learn ships."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.datasets.dataset import Dataset

__all__ = ["load_breast_cancer", "load_digits", "load_iris", "load_wine"]


def load_iris() -> Dataset:
    """Load 150 iris flowers of three species by four lengths.

    Examples
    --------
    >>> from arraylearn.datasets import load_iris
    >>> load_iris().X.shape
    (150, 4)
    """
    return _load(
        "iris", "species", "150 iris flowers of three species with the lengths and widths of leaves."
    )


def load_wine() -> Dataset:
    """Load 178 wines of three growers by 13 measurements."""
    return _load("wine", "grower", "178 wines of three growers with 13 chemical measurements.")


def load_digits() -> Dataset:
    """Load 1797 handwritten digits as 8 x 8 pixels."""
    return _load("digits", "digit", "1797 handwritten digits, 8 x 8 pixels of 0 to 16.")


def load_breast_cancer() -> Dataset:
    """Load 569 tumours, malignant (0) or benign (1), by 30 measurements."""
    return _load(
        "breast_cancer", "diagnosis", "569 tumours, malignant (0) or benign (1), with 30 measurements."
    )


def _load(name: str, target: str, description: str) -> Dataset:
    from sklearn import datasets  # only when asked for: it imports much

    found: Any = getattr(datasets, f"load_{name}")()
    return Dataset(
        name=name,
        X=np.asarray(found.data, dtype=np.float64),
        y=np.asarray(found.target, dtype=np.int64),
        feature_names=tuple(str(feature) for feature in found.feature_names),
        target=target,
        categorical_features=(),
        description=description,
    )
