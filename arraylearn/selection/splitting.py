"""Cut rows into folds by the splitters of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import is_array, to_host
from arraylearn.checks import refuse
from arraylearn.folds import Fold, LabelledRows

__all__ = ["are_pairs", "make_folds", "read_folds"]


def make_folds(sample: LabelledRows, estimator: Any, cv: Any, groups: Any = None) -> list[Fold]:
    """Cut the rows into folds.

    Parameters
    ----------
    sample : LabelledRows
        The rows.
    estimator : estimator
        A classifier's folds are stratified where `cv` is a number.
    cv : int, splitter of scikit-learn, iterable of (train, test), or None
        None means 5 folds. Of each pair both sides are row numbers or boolean masks of all rows.
    groups : array-like (n,), optional
        For splitters that keep groups together.
    """
    return read_folds(cv if are_pairs(cv) else _split(sample, estimator, cv, groups), sample.n_rows)


def are_pairs(cv: Any) -> TypeGuard[Iterable[Any]]:
    """Whether the folds are given one by one, not as a number or by a splitter."""
    return isinstance(cv, Iterable) and not hasattr(cv, "split")


def read_folds(pairs: Iterable[Any], n_rows: int) -> list[Fold]:
    """Turn pairs of row numbers or masks into folds; raise if one is invalid."""
    folds = [_read_fold(pair, f, n_rows) for f, pair in enumerate(pairs)]
    if not folds:
        raise ValueError("`cv` must make at least one fold; got none.")
    return folds


def _split(
    sample: LabelledRows, estimator: Any, cv: Any, groups: Any
) -> Iterator[tuple[HostArray, HostArray]]:
    """Cut the rows by a splitter, or by the one that a number stands for."""
    labels = sample.host_labels(np.arange(sample.n_rows))
    splitter = check_cv(cv, labels, classifier=is_classifier(estimator))
    # splitters need an object of n rows on the host: the labels in place of arrays of other libraries
    is_elsewhere = is_array(sample.X) and not hasattr(sample.X, "__array_interface__")
    rows = labels[:, None] if is_elsewhere else sample.X
    if groups is not None and is_array(groups):
        groups = to_host(groups)
    pairs: Iterator[tuple[HostArray, HostArray]] = splitter.split(rows, labels, groups)
    return pairs


def _read_fold(pair: Any, f: int, n_rows: int) -> Fold:
    """Turn the pair that a splitter yields for fold `f` into row numbers; raise if it is invalid."""
    sides = list(pair) if isinstance(pair, Iterable) else [pair]
    if len(sides) != 2:
        raise refuse("cv", "must yield pairs (train, test)", f"{len(sides)} part(s) in fold {f}")
    return Fold(
        *(_row_numbers(rows, f, part, n_rows) for rows, part in zip(sides, Fold._fields, strict=True))
    )


def _row_numbers(rows: Any, f: int, part: str, n_rows: int) -> HostArray:
    """Return the row numbers of one side of a fold, given as such or as a mask."""
    chosen = np.asarray(to_host(rows) if is_array(rows) else rows)
    is_mask = chosen.dtype.kind == "b"
    wrong = None
    if chosen.ndim != 1:
        wrong = f"an array of shape {chosen.shape}"
    elif is_mask and chosen.shape[0] != n_rows:
        wrong = f"a mask of {chosen.shape[0]} entries"
    elif chosen.shape[0] == 0 or (is_mask and not chosen.any()):
        wrong = "no row"
    elif chosen.dtype.kind not in "biu":
        wrong = f"values of dtype {chosen.dtype}"
    elif not is_mask and (chosen.min() < 0 or chosen.max() >= n_rows):
        wrong = f"row number {chosen[(chosen < 0) | (chosen >= n_rows)][0]}"
    if wrong is not None:
        rule = (
            f"must choose rows by their numbers, 0 to {n_rows - 1}, or by boolean masks of {n_rows} entries, "
            "and at least one row for training and one for the test"
        )
        raise refuse("cv", rule, f"{wrong} as the {part} rows of fold {f}")
    return chosen.nonzero()[0] if is_mask else chosen.astype(np.int64, copy=False)
