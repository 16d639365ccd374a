"""Checks of Bayes classifiers."""

from __future__ import annotations

from itertools import accumulate

from arraylearn.backend.arrays.moments import Moments
from arraylearn.bayes.full import FullModel, FullStatistics
from arraylearn.bayes.naive import NaiveModel, NaiveStatistics
from arraylearn.bayes.precision import MOST_VALUES, DistinctValues
from arraylearn.io.check_table import check_classifier
from arraylearn.io.fields import Fields

__all__ = ["check_full_bayes", "check_naive_bayes"]

# The least number that may be divided by, and the largest that may be squared.
_LEAST, _MOST = 5e-324, 1e151


def check_naive_bayes(fields: Fields) -> None:
    """Check a fitted `NaiveBayesClassifier`."""
    check_classifier(fields)
    # one cell more than there are categories, for missing values
    offsets = tuple(accumulate((size + 1 for size in fields.schema.n_values), initial=0))
    fields.sizes["cells"] = offsets[-1]
    fields.part("_statistics", NaiveStatistics, _check_naive_statistics)
    model = fields.part("model_", NaiveModel, _check_naive_model)
    fields.refuse("cells must follow the categories", unless=model.offsets == offsets)


def _check_naive_statistics(fields: Fields) -> None:
    fields.array("class_weight", "float", "k", low=0)
    fields.array("counts", "float", "cells k", low=0)
    fields.part("numeric", Moments, _check_naive_moments)
    fields.part("distinct", DistinctValues, _check_distinct_values)


def _check_distinct_values(fields: Fields) -> None:
    # infinite where a column has no known value, and after the last value of each column
    fields.array("low high", "float", "d_numeric", is_finite=False)
    fields.array("number", "int64", "d_numeric", low=0, high=MOST_VALUES)
    fields.array("values", "float", "d_numeric kept", is_finite=False)


def _check_naive_moments(fields: Fields) -> None:
    fields.array("weight scatter", "float", "k d_numeric", low=0)
    fields.array("mean", "float", "k d_numeric", low=-_MOST, high=_MOST)


def _check_naive_model(fields: Fields) -> None:
    fields.array("log_prior", "float", "k", high=0, is_finite=False)
    fields.array("log_table", "float", "cells k", high=0, is_finite=False)
    fields.array("mean", "float", "k d_numeric", low=-_MOST, high=_MOST)
    fields.array("var", "float", "k d_numeric", low=_LEAST)
    fields.numbers("offsets", tuple)
    fields.number("amplification")


def check_full_bayes(fields: Fields) -> None:
    """Check a fitted `FullBayesClassifier`."""
    check_classifier(fields)
    fields.part("_statistics", FullStatistics, _check_full_statistics)
    kinds = {FullModel: _check_full_model, NaiveModel: _check_naive_model}  # the latter where diagonal
    model = fields.take("model_", lambda value: type(value) in kinds, "a model of full Bayes")
    fields.sizes["cells"] = 0
    fields.check_part(f"{fields.owner}.model_", model, kinds[type(model)])


def _check_full_statistics(fields: Fields) -> None:
    fields.part("moments", Moments, _check_full_moments)
    for name in ("third", "fourth"):
        fields.optional_array(name, "float", "k d d")


def _check_full_moments(fields: Fields) -> None:
    fields.array("weight", "float", "k", low=0)
    fields.array("mean", "float", "k d", low=-_MOST, high=_MOST)
    fields.array("scatter", "float", "k d", "k d d")


def _check_full_model(fields: Fields) -> None:
    fields.array("log_prior", "float", "k", high=0, is_finite=False)
    fields.array("mean", "float", "k d", low=-_MOST, high=_MOST)
    fields.array("whitening", "float", "k d d", "1 d d", low=-_MOST, high=_MOST)
    fields.array("log_scale", "float", "k", "1")
    fields.array("covariance", "float", "k d d", "1 d d")
    fields.number("amplification", is_finite=False)
