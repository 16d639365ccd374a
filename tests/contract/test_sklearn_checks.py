"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import warnings

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.contract.estimators import CHECKED

# What no estimator here does, by design.
_BY_DESIGN = {"check_array_api_same_namespace": "a model fitted on one library serves all of them"}
_EXPECTED = {repr(subject.make()): {**_BY_DESIGN, **subject.expected_failures} for subject in CHECKED}


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [subject.make() for subject in CHECKED],
    expected_failed_checks=lambda estimator: _EXPECTED.get(repr(estimator), _BY_DESIGN),
)
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings():
        # the checks fit odd data on purpose: one row per class, constant columns
        warnings.simplefilter("ignore")
        check(estimator)
