"""Support vector classifiers for many values of C and many folds, from one kernel matrix."""

from arraylearn.svm.paths.fold_paths import judge_svc_folds

__all__ = ["judge_svc_folds"]
