"""What the Bayes classifiers warn with."""

__all__ = ["SingularCovarianceWarning", "UndefinedVarianceWarning"]


class UndefinedVarianceWarning(UserWarning):
    """A class has too few known values of a column for a variance; that of the whole column stands in."""


class SingularCovarianceWarning(UserWarning):
    """The covariance of a class has no inverse; a stated multiple of the pooled variances was added."""
