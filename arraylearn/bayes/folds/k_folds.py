"""Bayes classifiers on all folds from one pass over the rows: statistics are merged without the test rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from sklearn.base import clone

from arraylearn._typing import Array
from arraylearn.backend.namespace import from_host, read_flags, to_host
from arraylearn.bayes.naive import NaiveStatistics
from arraylearn.estimator import Batch
from arraylearn.folds import Candidate, Fold, LabelledRows, set_candidate, shallow_copy
from arraylearn.weights import read_weights

__all__ = ["judge_bayes_folds", "open_bayes", "partitions"]

# With more folds than this, keeping the statistics of all of them takes too much memory.
_MOST_FOLDS = 200


def judge_bayes_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: LabelledRows, folds: Sequence[Fold]
) -> Iterator[tuple[int, int, Any]]:
    """Yield the candidates fitted on the folds; the statistics of every row are taken once.

    Folds with disjoint test rows share one pass, if each is trained on all rows but its own. Left to the
    loop: other folds, and folds whose training rows lack a class or category of the sample.
    """
    for group in _groups(estimator, candidates):
        first = set_candidate(estimator, candidates[group[0]])
        if getattr(first, "covariance_estimator", None) is not None:
            continue
        opened = open_bayes(first, sample)
        if opened is None:
            continue
        model, batch, weights = opened
        for part in partitions(folds, sample.n_rows):
            trained, total = _all_but_one(model, batch, sample, weights, [folds[f] for f in part])
            for f, statistics in zip(part, trained, strict=True):
                if not _is_regular(sample, folds[f], statistics, total):
                    continue
                for c in group:
                    fitted = _fitted(model, candidates[c], batch, statistics)
                    if fitted is not None:
                        yield c, f, fitted


def open_bayes(estimator: Any, sample: LabelledRows) -> tuple[Any, Batch, Array | None] | None:
    """Read the sample as `fit` would; None if it is invalid: the ordinary loop then raises the error."""
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
    """Whether a column of objects holds numbers and text, so that fewer rows might make it numeric."""
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
            values.get("covariance_estimator") is None,
        )
        groups.setdefault(repr(key), []).append(c)
    return list(groups.values())


def _all_but_one(
    model: Any, batch: Batch, sample: LabelledRows, weights: Array | None, folds: Sequence[Fold]
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
    join = partial(model._merge_statistics, xp)
    # blocks       a     b     c     d
    # before       -     a     ab    abc    abcd
    # after        bcd   cd    d     -
    # joined       bcd   acd   abd   abc
    *before, total = [None, *accumulate(found, join)]
    after = [None, *accumulate(found[:0:-1], lambda later, one: join(one, later))][::-1]
    joined = [b if a is None else a if b is None else join(a, b) for a, b in zip(before, after, strict=True)]
    return joined[: len(folds)], total


def _is_regular(sample: LabelledRows, fold: Fold, statistics: Any, total: Any) -> bool:
    """Whether the training rows hold every class and category of the sample."""
    codes, weight = sample.labels.codes.take(fold.train), sample.sample_weight
    if not all((codes == c).any() for c in range(sample.labels.classes.shape[0])):
        return False
    if weight is not None and not (weight.take(fold.train) > 0).all():
        return False  # a row of weight 0 still makes its category known
    if not isinstance(statistics, NaiveStatistics):
        return True
    trained, known = (to_host(part.counts).sum(axis=1) for part in (statistics, total))
    # cells of missing values count, too: such a fold goes through the loop, with the same result
    return bool(((trained > 0) | (known == 0)).all())


def _fitted(model: Any, candidate: Candidate, batch: Batch, statistics: Any) -> Any:
    """Make a fitted classifier of statistics; None if that fails: the ordinary loop then raises the error."""
    xp = batch.place.xp
    fitted = shallow_copy(model).set_params(**clone(candidate, safe=False))
    try:
        fitted._check_parameters()
        fitted._statistics = statistics
        fitted.model_ = fitted._estimate(
            batch, statistics, xp.zeros((2,), dtype=xp.bool, device=batch.place.device)
        )
    except ValueError:
        return None
    return fitted
