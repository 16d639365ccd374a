"""Forests: random forests and extremely randomized trees."""

from arraylearn.forest.extra_trees import ExtraTreesClassifier
from arraylearn.forest.random_forest import RandomForestClassifier

__all__ = ["ExtraTreesClassifier", "RandomForestClassifier"]
