"""Explanations of fitted models: which columns matter."""

from arraylearn.explain.permutation import permutation_importance

__all__ = ["permutation_importance"]
