"""Cut rows into folds by the splitters of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from arraylearn.backend.namespace import is_array, to_host
from arraylearn.folds import Fold, LabelledRows

__all__ = ["make_folds"]


def make_folds(sample: LabelledRows, estimator: Any, cv: Any, groups: Any = None) -> list[Fold]:
    """Cut the rows into folds.

    Parameters
    ----------
    sample : LabelledRows
        The rows.
    estimator : estimator
        A classifier's folds are stratified where `cv` is a number.
    cv : int, splitter of scikit-learn, iterable of (train, test), or None
        None means 5 folds.
    groups : array-like (n,), optional
        For splitters that keep groups together.
    """
    labels = sample.host_labels(np.arange(sample.n_rows))
    splitter = check_cv(cv, labels, classifier=is_classifier(estimator))
    # splitters need an object of n rows on the host; of arrays of other libraries they get the labels
    is_elsewhere = is_array(sample.X) and not hasattr(sample.X, "__array_interface__")
    rows = labels[:, None] if is_elsewhere else sample.X
    if groups is not None and is_array(groups):
        groups = to_host(groups)
    folds = [
        Fold(np.asarray(train), np.asarray(test)) for train, test in splitter.split(rows, labels, groups)
    ]
    if not folds:
        raise ValueError("`cv` must make at least one fold; got none.")
    return folds
