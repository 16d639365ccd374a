"""Boosting: gradient boosted trees and AdaBoost."""

from arraylearn.boosting.adaboost import AdaBoostClassifier
from arraylearn.boosting.gradient import GradientBoostingClassifier

__all__ = ["AdaBoostClassifier", "GradientBoostingClassifier"]
