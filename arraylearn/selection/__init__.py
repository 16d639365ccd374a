"""Judging and choosing models: cross-validation, search, resampling."""

from arraylearn.selection import resample
from arraylearn.selection.cross_validate import cross_validate, leave_one_out
from arraylearn.selection.report import Report
from arraylearn.selection.search import GridSearch

__all__ = ["GridSearch", "Report", "cross_validate", "leave_one_out", "resample"]
