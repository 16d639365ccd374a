"""Support vector machines: classification and one class, on dual solvers made of array calls."""

from arraylearn.svm.classifier import SVC

__all__ = ["SVC"]
