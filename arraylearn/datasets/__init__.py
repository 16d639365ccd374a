"""The worked examples of the classification literature, and the tables that scikit-learn ships."""

from arraylearn.datasets.dataset import Dataset
from arraylearn.datasets.shipped import load_breast_cancer, load_digits, load_iris, load_wine
from arraylearn.datasets.worked import (
    load_cart_toy,
    load_drug,
    load_electronics,
    load_hire,
    load_hire_numeric,
    load_loans,
    load_mammals,
    load_people,
    load_pruning_depth,
    load_soccer,
    load_svm_toy,
    load_tennis,
    load_two_flags,
)

__all__ = [
    "Dataset",
    "load_breast_cancer",
    "load_cart_toy",
    "load_digits",
    "load_drug",
    "load_electronics",
    "load_hire",
    "load_hire_numeric",
    "load_iris",
    "load_loans",
    "load_mammals",
    "load_people",
    "load_pruning_depth",
    "load_soccer",
    "load_svm_toy",
    "load_tennis",
    "load_two_flags",
    "load_wine",
]
