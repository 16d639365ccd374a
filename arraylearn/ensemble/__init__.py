"""Ensembles of trees: gradient boosting."""

from arraylearn.ensemble.gradient import GradientBoostingClassifier

__all__ = ["GradientBoostingClassifier"]
