"""Bayes classifiers on folds and with every row left out: statistics are taken once, for all of them."""

from arraylearn.bayes.folds.k_folds import judge_bayes_folds
from arraylearn.bayes.folds.leave_one_out import leave_out_bayes_rows

__all__ = ["judge_bayes_folds", "leave_out_bayes_rows"]
