"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import warnings

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

import arraylearn as al

# scikit-learn declares the same of its own support vector machines
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "gamma='scale' is the variance of the rows as they stand, and tol=1e-3 ends before 1e-7"
    )
}


@pytest.mark.parametrize(
    "estimator",
    [
        al.SVC(),
        al.SVC(kernel="linear", multiclass="ova"),
        al.SVC(probability=True),
        al.OneClassSVM(),
        al.SVDD(),
    ],
    ids=str,
)
def test_estimator_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(estimator, expected_failed_checks=EXPECTED)
