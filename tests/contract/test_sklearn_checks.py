"""scikit-learn's own checks of an estimator, listed here once for all of them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from tests.contract.estimators import CHECKED, SETTINGS

_EXPECTED = {repr(subject.make()): subject.expected_failures for subject in CHECKED}


def over_checks() -> pytest.MarkDecorator:
    """Parametrize a test by ``estimator`` and ``check``.

    The checks of other array libraries are left out: they skip themselves unless SciPy is told to look at
    arrays, and the contract has its own on every rung.
    """
    estimators = [subject.make() for subject in CHECKED]
    mark = parametrize_with_checks(
        estimators, expected_failed_checks=lambda estimator: _EXPECTED.get(repr(estimator), {})
    )
    names, cases = mark.args
    kept = [case for case in cases if not _check_name(case).startswith("check_array_api")]
    return pytest.mark.parametrize(names, kept, **mark.kwargs)


def _check_name(case: Any) -> str:
    _, check = getattr(case, "values", case)  # a case with marks has its values inside
    while hasattr(check, "func"):
        check = check.func
    name: str = check.__name__
    return name


@pytest.mark.filterwarnings("default")
@over_checks()
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings():
        # the checks fit odd data on purpose: one row per class, constant columns
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subject", SETTINGS, ids=str)
def test_scikit_learn_checks_in_other_settings(subject):
    results = check_estimator(subject.make(), on_fail=None, on_skip=None)
    failed = {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"}
    assert failed.keys() == set(subject.expected_failures), failed
