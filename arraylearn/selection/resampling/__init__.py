"""Balance the classes of training rows: random under- and over-sampling, SMOTE and SMOTE-NC.

The samplers have the ``fit_resample`` of imbalanced-learn and work in its pipelines; `ResampledClassifier`
puts one before any classifier, so that the training rows of a fold are resampled and its test rows are not.
"""

from arraylearn.selection.resampling.random_samplers import RandomOverSampler, RandomUnderSampler
from arraylearn.selection.resampling.resampled_classifier import ResampledClassifier
from arraylearn.selection.resampling.smote import SMOTE

__all__ = ["SMOTE", "RandomOverSampler", "RandomUnderSampler", "ResampledClassifier"]
