"""Bayes classifiers, naive and full, and Bayes' rule itself."""

from arraylearn.bayes.classifier import SingularCovarianceWarning, UndefinedVarianceWarning
from arraylearn.bayes.full_classifier import FullBayesClassifier
from arraylearn.bayes.naive_classifier import NaiveBayesClassifier
from arraylearn.bayes.posterior import bayes_rule

__all__ = [
    "FullBayesClassifier",
    "NaiveBayesClassifier",
    "SingularCovarianceWarning",
    "UndefinedVarianceWarning",
    "bayes_rule",
]
