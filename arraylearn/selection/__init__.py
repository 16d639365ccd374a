"""Judge and choose models: cross-validation, search, resampling."""

from arraylearn.selection import resampling as resample
from arraylearn.selection.cross_validate import evaluate, leave_one_out
from arraylearn.selection.grid_search import GridSearch
from arraylearn.selection.validation_report import Report

__all__ = ["GridSearch", "Report", "evaluate", "leave_one_out", "resample"]
