"""The fast paths: which family answers which candidates together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from arraylearn.selection.answers import Answers
from arraylearn.selection.folds import Fold, Sample

__all__ = ["FastPath", "find_fast_path", "find_leave_one_out"]

Candidate = dict[str, Any]
# (estimator, candidates, sample, folds) -> (candidate, fold, answers for its test rows); what is left out
# is declined
FastPath = Callable[[Any, Sequence[Candidate], Sample, Sequence[Fold]], Iterator[tuple[int, int, Answers]]]


def find_fast_path(estimator: Any, candidates: Sequence[Candidate], sample: Sample) -> FastPath | None:
    """Return the fast path of an estimator's family for these candidates, or None."""
    return None


def find_leave_one_out(estimator: Any, sample: Sample) -> Callable[[Any, Sample], Answers | None] | None:
    """Return the function that answers for every row left out in turn, or None."""
    return None
