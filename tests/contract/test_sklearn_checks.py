"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import warnings

import pytest

from tests.contract.checks import over_checks
from tests.contract.estimators import CHECKED

_EXPECTED = {repr(subject.make()): subject.expected_failures for subject in CHECKED}


@pytest.mark.filterwarnings("default")
@over_checks([subject.make() for subject in CHECKED], lambda estimator: _EXPECTED.get(repr(estimator), {}))
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings():
        # the checks fit odd data on purpose: one row per class, constant columns
        warnings.simplefilter("ignore")
        check(estimator)
