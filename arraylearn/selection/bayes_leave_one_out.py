r"""Bayes classifiers with every row left out in turn, all rows at once.

Leaving out row x of weight w changes the statistics of its own class by rank one: with class weight W, mean
:math:`\mu`, scatter S and :math:`u = x - \mu`

.. math:: W' = W - w, \qquad \mu' = \mu - \tfrac{w}{W'} u, \qquad S' = S - \tfrac{w W}{W'} u u^T
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sklearn.base import clone

from arraylearn._typing import Namespace
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, to_host
from arraylearn.bayes.classifier import BayesClassifier
from arraylearn.bayes.naive import NaiveStatistics
from arraylearn.bayes.naive_classifier import _value_priors
from arraylearn.bayes.posterior import log_posterior, settle
from arraylearn.estimator import Batch
from arraylearn.selection.answers import Answers
from arraylearn.selection.bayes_folds import open_bayes
from arraylearn.selection.folds import Sample
from arraylearn.selection.full_without_one import full_without_one
from arraylearn.selection.naive_without_one import NaiveRules, naive_without_one
from arraylearn.selection.rows import take_rows

__all__ = ["leave_out_bayes_rows"]

Host = Any  # a NumPy array


class Joint(NamedTuple):
    """Joint log likelihoods of rows under models that have not seen them."""

    value: Host  # (n, k)
    log_prior: Host  # (n, k)


def leave_out_bayes_rows(estimator: Any, sample: Sample) -> Answers | None:
    """Answer for every row as the classifier fitted on all others would; None where only the loop can.

    Rows whose absence changes more than numbers (the last one of a category, too few for a variance, a
    covariance that hangs on one row) are answered by a fit of their own.
    """
    if getattr(estimator, "shrinkage", None) == "auto" or min(_class_sizes(sample)) < 2:
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
    weighted = (xp.astype(batch.table.numeric, dtype, copy=False), classes, weights)
    given = model._log_prior(place)
    rule = _naive_rules(model, batch, statistics)
    if rule is not None:
        naive = statistics if isinstance(statistics, NaiveStatistics) else _as_naive(xp, statistics)
        found = naive_without_one(xp, naive, *weighted, batch.table.codes, given, rule)
    else:
        is_shared = model.covariance == "shared"
        shrinkage = float(model.shrinkage or 0.0)
        lost = 1.0 if model.variance == "unbiased" else 0.0
        found = full_without_one(
            xp, statistics.moments, *weighted, given, shared=is_shared, shrinkage=shrinkage, lost=lost
        )
    joint, log_prior, is_odd = (to_host(part) for part in found)
    known = Joint(joint.copy(), log_prior.copy())
    odd = is_odd.nonzero()[0]
    if odd.shape[0] > max(50, sample.n_rows // 2):
        return None  # the loop has a bar and can be interrupted
    _fit_odd_rows(estimator, sample, odd, known)
    return _answers(model, known)


def _class_sizes(sample: Sample) -> list[int]:
    codes = sample.labels.codes
    return [int((codes == c).sum()) for c in range(sample.labels.classes.shape[0])]


def _naive_rules(model: Any, batch: Batch, statistics: Any) -> NaiveRules | None:
    """Return how naive Bayes estimates; None for a full covariance."""
    lost = 1.0 if model.variance == "unbiased" else 0.0
    if not isinstance(statistics, NaiveStatistics):
        return (
            NaiveRules(0.0, None, 0.0, "uniform", (), lost, 1e-9) if model.covariance == "diagonal" else None
        )
    laplace, m = float(model.laplace), model.m_estimate
    extra = laplace if m is None else m / model.classes_.shape[0]
    return NaiveRules(
        laplace,
        None if m is None else float(m),
        extra if model.smooth_priors else 0.0,
        "given" if isinstance(model.value_priors, Mapping) else model.value_priors,
        batch.table.schema.n_values,
        lost,
        float(model.variance_floor),
        tuple(_value_priors(model.value_priors, batch.table.schema) or ()),
    )


def _as_naive(xp: Namespace, statistics: Any) -> NaiveStatistics:
    moments = statistics.moments
    return NaiveStatistics(
        moments.weight,
        xp.zeros_like(moments.mean[:0, :]),
        moments._replace(weight=moments.weight[:, None] + 0.0 * moments.mean),
    )


def _fit_odd_rows(estimator: Any, sample: Sample, odd: Host, known: Joint) -> None:
    """Fit without each of these rows, and write what the models say."""
    rows = from_host(range(sample.n_rows), HOST)
    for i in odd.tolist():
        fitted: BayesClassifier = sample.fit(clone(estimator), rows[rows != i])
        known.value[i] = to_host(fitted.predict_joint_log_proba(take_rows(sample.X, rows[i : i + 1])))[0]
        known.log_prior[i] = to_host(fitted.model_.log_prior)


def _answers(model: Any, known: Joint) -> Answers:
    """Make the answers of the classifiers of their joint log likelihoods."""
    xp = HOST.xp
    settled = settle(xp, known.value, known.log_prior)

    def posterior() -> Host:
        return log_posterior(xp, known.value, known.log_prior)

    def decision() -> Host:
        return settled[:, 1] - settled[:, 0] if settled.shape[1] == 2 else known.value

    chosen = settled if model._may_vanish() else known.value
    return Answers(
        model.classes_,
        {
            "predict": lambda: model.classes_.take(xp.argmax(chosen, axis=1)),
            "predict_proba": lambda: xp.exp(posterior()),
            "predict_log_proba": posterior,
            "decision_function": decision,
        },
    )
