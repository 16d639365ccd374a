"""The warning for problems that were not solved to the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sklearn.exceptions import ConvergenceWarning

from arraylearn.backend.errors import warn_caller

__all__ = ["warn_unfinished"]


class Outcome(Protocol):
    """How a solve ended: a `TaskResult` or a `DualSolution`."""

    @property
    def gap(self) -> float: ...

    @property
    def is_converged(self) -> bool: ...

    @property
    def is_stalled(self) -> bool: ...


def warn_unfinished(estimator: Any, outcomes: Sequence[Outcome]) -> None:
    """Warn if the gap of a problem stayed above `tol`: how large it is, why, and what to do."""
    unfinished = [outcome for outcome in outcomes if not outcome.is_converged]
    if not unfinished:
        return
    worst = max(outcome.gap for outcome in unfinished)
    if all(outcome.is_stalled for outcome in unfinished):
        reason = "rounding allows no smaller one. Raise `tol`"
    else:
        reason = f"max_iter={estimator.max_iter} was reached. Raise `max_iter`"
    warn_caller(
        f"{len(unfinished)} of {len(outcomes)} problems stopped at a gap of up to {worst:.3g} > "
        f"tol={estimator.tol:g}: {reason}, scale the columns of `X`, or use another kernel.",
        ConvergenceWarning,
    )
