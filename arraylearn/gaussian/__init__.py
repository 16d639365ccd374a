"""Normal distributions, one per class: moments and log densities."""

from arraylearn.gaussian.class_moments import ClassMoments, Moments, covariances, merge_moments, moments
from arraylearn.gaussian.density import (
    Gaussians,
    amplification,
    diagonal_log_density,
    factor_covariances,
    full_log_density,
    is_expansion_safe,
    log_density,
)

__all__ = [
    "ClassMoments",
    "Gaussians",
    "Moments",
    "amplification",
    "covariances",
    "diagonal_log_density",
    "factor_covariances",
    "full_log_density",
    "is_expansion_safe",
    "log_density",
    "merge_moments",
    "moments",
]
