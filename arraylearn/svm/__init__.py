"""Support vector machines: classification and one class, on dual solvers made of array calls."""

from arraylearn.svm.classifier import SVC
from arraylearn.svm.one_class import OneClassSVM
from arraylearn.svm.sphere import SVDD

__all__ = ["SVC", "SVDD", "OneClassSVM"]
