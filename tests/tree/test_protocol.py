"""What scikit-learn asks of every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import arraylearn as al


@parametrize_with_checks(
    [
        al.DecisionTreeClassifier(),
        al.DecisionTreeClassifier(measure="entropy", missing="direction"),
        al.cart(alpha=0.01),  # by cross-validation, repeated rows are not the same as weights
        al.c45(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
