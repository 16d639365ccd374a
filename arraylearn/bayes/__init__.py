"""Bayes classifiers, naive and full, and Bayes' rule itself."""

from arraylearn.bayes.full_classifier import FullBayesClassifier
from arraylearn.bayes.naive_classifier import NaiveBayesClassifier
from arraylearn.bayes.posterior import bayes_rule
from arraylearn.bayes.shared_classifier import SingularCovarianceWarning, UndefinedVarianceWarning

__all__ = [
    "FullBayesClassifier",
    "NaiveBayesClassifier",
    "SingularCovarianceWarning",
    "UndefinedVarianceWarning",
    "bayes_rule",
]
