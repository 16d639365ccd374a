"""Ensembles: random forests, gradient boosted trees and AdaBoost."""

from arraylearn.ensemble.adaboost import AdaBoostClassifier
from arraylearn.ensemble.extra_trees import ExtraTreesClassifier
from arraylearn.ensemble.forest import RandomForestClassifier
from arraylearn.ensemble.gradient import GradientBoostingClassifier

__all__ = [
    "AdaBoostClassifier",
    "ExtraTreesClassifier",
    "GradientBoostingClassifier",
    "RandomForestClassifier",
]
