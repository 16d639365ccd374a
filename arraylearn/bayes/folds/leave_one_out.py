r"""Bayes classifiers with every row left out in turn, all rows at once.

Leaving out row x of weight w changes the statistics of its own class by rank one: with class weight W, mean
:math:`\mu`, scatter S and :math:`u = x - \mu`

.. math:: W' = W - w, \qquad \mu' = \mu - \tfrac{w}{W'} u, \qquad S' = S - \tfrac{w W}{W'} u u^T
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from arraylearn._typing import HostArray, Namespace
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, to_host
from arraylearn.bayes.folds.full_without_one import FullRules, full_without_one
from arraylearn.bayes.folds.k_folds import open_bayes
from arraylearn.bayes.folds.naive_without_one import NaiveRules, WeightedRows, WithoutOne, naive_without_one
from arraylearn.bayes.full_classifier import VARIANCE_FLOOR, FullBayesClassifier
from arraylearn.bayes.naive import NaiveStatistics, Smoothing
from arraylearn.bayes.posterior import log_posterior, settle
from arraylearn.bayes.precision import distinct_values
from arraylearn.bayes.shared_classifier import BayesClassifier
from arraylearn.folds import Answers, LabelledRows
from arraylearn.table.subsets import take_rows

__all__ = ["leave_out_bayes_rows"]


def leave_out_bayes_rows(estimator: Any, sample: LabelledRows) -> Answers | None:
    """Predict every row as the classifier fitted on all others would; None: the ordinary loop has to do it.

    The loop serves for options without an update formula, invalid input, and samples most of whose rows need
    a fit of their own. A row needs one if the model without it differs in more than numbers: the last row of
    a category, too few rows for a variance, a covariance that is singular without the row.
    """
    if min(_class_sizes(sample)) < 2 or (
        isinstance(estimator, FullBayesClassifier) and not _is_updated(estimator)
    ):
        return None
    opened = open_bayes(clone(estimator), sample)
    if opened is None or (sample.sample_weight is not None and not (sample.sample_weight > 0).all()):
        return None
    model, batch, weights = opened
    xp, place = batch.place.xp, batch.place
    dtype = accumulator_dtype(place)
    classes = from_host(sample.labels.codes, place, xp.int64)
    statistics = model._take_statistics(batch, classes, weights)
    if weights is None:
        weights = xp.ones((sample.n_rows,), dtype=dtype, device=place.device)
    rows = WeightedRows(xp.astype(batch.table.numeric, dtype, copy=False), classes, weights)
    given = model._log_prior(place)
    lost = 1.0 if model.variance == "unbiased" else 0.0
    if isinstance(statistics, NaiveStatistics):
        n_values, share = batch.table.schema.n_values, model.var_smoothing
        is_by_gap = share is None
        rules = NaiveRules(
            model._smoothing(), model._prior_extra(), n_values, lost, float(share or 0.0), is_by_gap
        )
        found = naive_without_one(xp, statistics, rows, batch.table.codes, given, rules)
    elif model.covariance == "diagonal":
        normal = NaiveRules(Smoothing(0.0, None, "uniform"), 0.0, (), lost, VARIANCE_FLOOR, by_gap=False)
        found = naive_without_one(xp, _as_naive(xp, statistics), rows, batch.table.codes, given, normal)
    else:
        full = FullRules(model.covariance == "shared", float(model.shrinkage or 0.0), lost)
        found = full_without_one(xp, statistics.moments, rows, given, full)
    known = WithoutOne(*(to_host(part).copy() for part in found))
    to_fit = known.needs_fit.nonzero()[0]
    if to_fit.shape[0] > max(50, sample.n_rows // 2):
        return None  # the loop shows its progress and can be interrupted
    _fit_without(estimator, sample, to_fit, known)
    return _answers(model, known)


def _is_updated(estimator: FullBayesClassifier) -> bool:
    """Whether there is a formula for a covariance without one row."""
    return (
        estimator.shrinkage != "auto" and not estimator.reg_param and estimator.covariance_estimator is None
    )


def _class_sizes(sample: LabelledRows) -> list[int]:
    codes = sample.labels.codes
    return [int((codes == c).sum()) for c in range(sample.labels.classes.shape[0])]


def _as_naive(xp: Namespace, statistics: Any) -> NaiveStatistics:
    """Return the statistics of a diagonal covariance as those of naive Bayes on numeric columns."""
    moments = statistics.moments
    return NaiveStatistics(
        moments.weight,
        xp.zeros_like(moments.mean[:0, :]),
        moments._replace(weight=moments.weight[:, None] + 0.0 * moments.mean),
        distinct_values(xp, moments.mean),  # not read
    )


def _fit_without(estimator: Any, sample: LabelledRows, to_fit: HostArray, known: WithoutOne) -> None:
    """Fit without each of the rows `to_fit`, and write what the models give for it into `known`."""
    rows = np.arange(sample.n_rows)
    for i in to_fit.tolist():
        fitted: BayesClassifier = sample.fit(clone(estimator), rows[rows != i])
        known.joint[i] = to_host(fitted.predict_joint_log_proba(take_rows(sample.X, rows[i : i + 1])))[0]
        known.log_prior[i] = to_host(fitted.model_.log_prior)


def _answers(model: Any, known: WithoutOne) -> Answers:
    """Make predictions of joint log likelihoods."""
    xp = HOST.xp
    settled = settle(xp, known.joint, known.log_prior)

    def posterior() -> HostArray:
        found: HostArray = log_posterior(xp, known.joint, known.log_prior)
        return found

    chosen = settled if model._may_vanish() else known.joint
    odds = settled[:, 1] - settled[:, 0] if settled.shape[1] == 2 else known.joint
    return Answers(
        model.classes_,
        {
            "predict": lambda: model.classes_.take(xp.argmax(chosen, axis=1)),
            "predict_proba": lambda: xp.exp(posterior()),
            "predict_log_proba": posterior,
            "decision_function": lambda: odds,
        },
    )
