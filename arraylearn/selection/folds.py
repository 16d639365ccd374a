"""Rows to train on and rows to judge on, through scikit-learn's splitters."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from arraylearn.backend.namespace import HOST, from_host, is_array, to_host
from arraylearn.selection.rows import count_rows, is_pairwise, take_columns, take_rows
from arraylearn.table import Labels, encode_labels

__all__ = ["Fold", "Sample", "make_folds", "open_sample"]

Host = Any  # a NumPy array


class Fold(NamedTuple):
    """Row numbers, on the host."""

    train: Host
    test: Host


class Sample(NamedTuple):
    """The rows that models are chosen on."""

    X: Any  # as the user passed them
    y: Any
    labels: Labels  # of y, on the host
    sample_weight: Host | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.codes.shape[0])

    def fit(self, estimator: Any, rows: Host | None = None) -> Any:
        """Fit an estimator on some of the rows (default: all) and return it."""
        X, y, weight = self.X, self.y, self.sample_weight
        if rows is not None:
            X, y = self.rows(estimator, rows, rows), take_rows(y, rows)
            weight = None if weight is None else weight.take(rows)
        return estimator.fit(X, y) if weight is None else estimator.fit(X, y, sample_weight=weight)

    def rows(self, estimator: Any, rows: Host, train: Host) -> Any:
        """Return some rows as an estimator fitted on the rows `train` takes them."""
        some = take_rows(self.X, rows)
        return take_columns(some, train) if is_pairwise(estimator) else some

    def host_labels(self, rows: Host) -> Host:
        """Return the labels of some rows on the host."""
        return self.labels.classes.take(self.labels.codes.take(rows))


def open_sample(X: Any, y: Any, sample_weight: Any = None) -> Sample:
    """Check that rows, labels and weights belong together."""
    labels = encode_labels(y)
    n = labels.codes.shape[0]
    if count_rows(X) != n:
        raise ValueError(
            "`X` and `y` must have as many rows; found input variables with inconsistent numbers of samples: "
            f"{[count_rows(X), n]}."
        )
    if sample_weight is not None:
        weight = to_host(sample_weight) if is_array(sample_weight) else from_host(sample_weight, HOST)
        if weight.shape != (n,):
            raise ValueError(f"`sample_weight` must have one number per row ({n}); got shape {weight.shape}.")
        sample_weight = weight
    return Sample(X, y, labels, sample_weight)


def make_folds(sample: Sample, estimator: Any, cv: Any, groups: Any = None) -> list[Fold]:
    """Cut the rows into folds.

    Parameters
    ----------
    sample : Sample
        The rows.
    estimator : estimator
        A classifier's folds are stratified where `cv` is a number.
    cv : int, splitter of scikit-learn, iterable of (train, test), or None
        None means 5 folds.
    groups : array-like (n,), optional
        For splitters that keep groups together.
    """
    labels = sample.host_labels(from_host(range(sample.n_rows), HOST))
    splitter = check_cv(cv, labels, classifier=is_classifier(estimator))
    # splitters of scikit-learn want something of n rows on the host
    rows = (
        labels[:, None] if is_array(sample.X) and not hasattr(sample.X, "__array_interface__") else sample.X
    )
    if groups is not None and is_array(groups):
        groups = to_host(groups)
    folds = [
        Fold(from_host(train, HOST), from_host(test, HOST))
        for train, test in splitter.split(rows, labels, groups)
    ]
    if not folds:
        raise ValueError("`cv` must make at least one fold; got none.")
    return folds
