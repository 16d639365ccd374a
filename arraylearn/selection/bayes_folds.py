"""Bayes classifiers on all folds from one pass: a fold is left out when the statistics are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from arraylearn._typing import Array
from arraylearn.backend.namespace import from_host, read_flags, to_host
from arraylearn.bayes import FullBayesClassifier, NaiveBayesClassifier
from arraylearn.bayes.naive import NaiveStatistics
from arraylearn.estimator import Batch
from arraylearn.selection.folds import Fold, Sample
from arraylearn.selection.rows import shallow_copy
from arraylearn.weights import read_weights

__all__ = ["is_bayes", "judge_bayes_folds", "open_bayes", "part_of_batch"]

Host = Any  # a NumPy array
Candidate = dict[str, Any]

# With more folds than this their statistics would take more memory than they save time.
_MOST_FOLDS = 200


def is_bayes(estimator: Any) -> bool:
    """Whether an estimator is one of our Bayes classifiers, and not a variant of it."""
    return type(estimator) in (NaiveBayesClassifier, FullBayesClassifier)


def judge_bayes_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: Sample, folds: Sequence[Fold]
) -> Iterator[tuple[int, int, Any]]:
    """Yield the candidates fitted on the folds: the statistics of every row are taken once.

    Each set of folds that parts the rows is one pass; the training rows of a fold are all but its own. Folds
    whose training rows know fewer classes or categories than the sample are left to the loop.
    """
    for group in _groups(estimator, candidates):
        opened = open_bayes(_with(estimator, candidates[group[0]]), sample)
        if opened is None:
            continue
        model, batch, weights = opened
        for part in partitions(folds, sample.n_rows):
            trained, whole = _all_but_one(model, batch, sample, weights, [folds[f] for f in part])
            for f, statistics in zip(part, trained, strict=True):
                if not _is_regular(sample, folds[f], statistics, whole):
                    continue
                for c in group:
                    fitted = _fitted(model, candidates[c], batch, statistics)
                    if fitted is not None:
                        yield c, f, fitted


def open_bayes(estimator: Any, sample: Sample) -> tuple[Any, Batch, Array | None] | None:
    """Read the sample as `fit` would; None where the loop had better speak."""
    try:
        estimator._check_parameters()
        batch, _ = estimator._open_fit(sample.X, sample.y)
        weights = read_weights(sample.sample_weight, sample.n_rows, batch.place)
    except (TypeError, ValueError):
        return None
    if any(read_flags(batch.place, batch.is_bad)) or _depends_on_values(estimator):
        return None
    return estimator, batch, weights


def _depends_on_values(estimator: Any) -> bool:
    """Whether fewer rows might make another kind of column: numbers beside text, in a column of objects."""
    if getattr(estimator, "categorical_features", None) != "from_dtype":
        return False
    return any(not isinstance(value, str | bool) for domain in estimator.schema_.domains for value in domain)


def part_of_batch(batch: Batch, rows: Array) -> Batch:
    """Return some rows of a batch."""
    xp, table = batch.place.xp, batch.table
    some = table._replace(
        numeric=xp.take(table.numeric, rows, axis=0), codes=xp.take(table.codes, rows, axis=1)
    )
    return batch._replace(table=some)


def partitions(folds: Sequence[Fold], n_rows: int) -> list[list[int]]:
    """Group folds that are trained on all they are not tested on into sets with disjoint test rows."""
    parts: list[list[int]] = []
    if len(folds) > _MOST_FOLDS:
        return parts
    is_seen = np.zeros(n_rows, dtype=bool)
    for f, (train, test) in enumerate(folds):
        times = np.zeros(n_rows, dtype="int8")
        times[train] += 1
        times[test] += 1
        if train.shape[0] + test.shape[0] != n_rows or not (times == 1).all():
            continue
        if not parts or is_seen[test].any():
            parts.append([])
            is_seen[:] = False
        parts[-1].append(f)
        is_seen[test] = True
    return parts


def _groups(estimator: Any, candidates: Sequence[Candidate]) -> list[list[int]]:
    """Group the candidates that share their statistics."""
    groups: dict[str, list[int]] = {}
    for c, candidate in enumerate(candidates):
        values = {**estimator.get_params(deep=False), **candidate}
        key = (
            values.get("categorical_features"),
            values.get("backend"),
            values.get("covariance") == "diagonal",
            values.get("shrinkage") == "auto",
        )
        groups.setdefault(repr(key), []).append(c)
    return list(groups.values())


def _with(estimator: Any, candidate: Candidate) -> Any:
    return clone(estimator).set_params(**clone(candidate, safe=False))


def _all_but_one(
    model: Any, batch: Batch, sample: Sample, weights: Array | None, folds: Sequence[Fold]
) -> tuple[list[Any], Any]:
    """Return the statistics of the training rows of each fold, and of all rows."""
    xp, place = batch.place.xp, batch.place
    is_rest = np.ones(sample.n_rows, dtype=bool)
    for fold in folds:
        is_rest[fold.test] = False
    blocks = [fold.test for fold in folds]
    rest = is_rest.nonzero()[0]
    codes = from_host(sample.labels.codes, place)
    found = []
    for block in [*blocks, *([rest] if rest.shape[0] else [])]:
        rows = from_host(block, place, xp.int64)
        weight = None if weights is None else xp.take(weights, rows, axis=0)
        found.append(model._take_statistics(part_of_batch(batch, rows), xp.take(codes, rows, axis=0), weight))
    merge = model._merge_statistics
    before: list[Any] = [None]
    after: list[Any] = [None]  # statistics of the blocks before, and (reversed) after each block
    for first, last in zip(found[:-1], found[:0:-1], strict=True):
        before.append(first if before[-1] is None else merge(xp, before[-1], first))
        after.append(last if after[-1] is None else merge(xp, last, after[-1]))
    after.reverse()
    joined = []
    for a, b in zip(before, after, strict=True):
        joined.append(b if a is None else a if b is None else merge(xp, a, b))
    whole = found[-1] if before[-1] is None else merge(xp, before[-1], found[-1])
    return joined[: len(folds)], whole


def _is_regular(sample: Sample, fold: Fold, statistics: Any, whole: Any) -> bool:
    """Whether the training rows know every class and category that the sample has."""
    codes, weight = sample.labels.codes.take(fold.train), sample.sample_weight
    if not all((codes == c).any() for c in range(sample.labels.classes.shape[0])):
        return False
    if weight is not None and not (weight.take(fold.train) > 0).all():
        return False  # a row of weight 0 still makes its category known
    if not isinstance(statistics, NaiveStatistics):
        return True
    trained, known = (to_host(part.counts).sum(axis=1) for part in (statistics, whole))
    # the cells of missing values do not matter, but to ask is not worth the while
    return bool(((trained > 0) | (known == 0)).all())


def _fitted(model: Any, candidate: Candidate, batch: Batch, statistics: Any) -> Any:
    """Make a fitted classifier of statistics; None where the loop shall say what is wrong."""
    xp = batch.place.xp
    fitted = shallow_copy(model).set_params(**clone(candidate, safe=False))
    try:
        fitted._check_parameters()
        fitted.statistics_ = statistics
        fitted.model_ = fitted._estimate(
            batch, statistics, xp.zeros((2,), dtype=xp.bool, device=batch.place.device)
        )
    except ValueError:
        return None
    return fitted
