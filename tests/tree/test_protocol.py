"""What scikit-learn asks of every estimator."""

import arraylearn as al
from tests.contract.checks import over_checks


@over_checks(
    [
        al.DecisionTreeClassifier(),
        al.DecisionTreeClassifier(measure="entropy", missing="direction"),
        al.cart(alpha=0.01),  # by cross-validation, repeated rows are not the same as weights
        al.c45(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
