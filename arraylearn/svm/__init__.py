"""Support vector machines: classification and one class, on dual solvers made of array calls."""

from arraylearn.svm.one_class import SVDD, OneClassSVM
from arraylearn.svm.svc import SVC

__all__ = ["SVC", "SVDD", "OneClassSVM"]
