"""When a solver stops: at the tolerance, at a limit of steps, or where rounding ends all progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Settings", "StallRule"]

_BETTER = 0.9  # a gap below this share of the best one so far is an improvement
# A relative growth of the objective by more than this is an improvement. It is measured from the last
# improvement on, because rounding alone can also raise the objective.
_GROWTH = 1e-10


class Settings(NamedTuple):
    """Stopping rule, cache size and progress callback: what every solver is given."""

    tol: float = 1e-3  # largest violation of the optimality conditions
    max_iter: int = -1  # steps (of pairs, or of Newton); negative: no limit
    cache_bytes: int = 200 << 20  # memory for kernel values
    report: Callable[[int, float], None] | None = None  # called with the steps so far and the gap

    @property
    def is_limited(self) -> bool:
        """Whether the caller has set a limit of steps."""
        return self.max_iter >= 0

    def step_limit(self, n: int) -> int:
        """Return how many pair steps n rows may take; LIBSVM's limit where the caller has set none."""
        return self.max_iter if self.is_limited else max(10_000_000, 100 * n)

    def at_most(self, n_steps: int) -> Settings:
        """Return these settings with a limit of `n_steps`, or the caller's if that is lower."""
        return self._replace(max_iter=min(n_steps, self.max_iter) if self.is_limited else n_steps)

    def after(self, n_steps: int) -> Settings:
        """Return these settings with the limit that is left after `n_steps`."""
        return self._replace(max_iter=max(self.max_iter - n_steps, 0)) if self.is_limited else self


class StallRule:
    """Decides from the gaps and objectives of one solve whether rounding is all that still changes them.

    A gap rises and falls during a solve, and far from the optimum only the objective improves. A solve is
    therefore stalled when neither has improved in `patience` observations in a row.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._gap = float("inf")
        self._objective: float | None = None
        self._n_vain = 0

    def is_stalled(self, gap: float, objective: float) -> bool:
        """Record one observation; return whether the solve has stalled."""
        before = objective if self._objective is None else self._objective
        is_better = gap < _BETTER * self._gap or objective > before + _GROWTH * abs(before)
        if is_better:
            self._gap = min(self._gap, gap)
        if is_better or self._objective is None:
            self._objective = max(before, objective)
        self._n_vain = 0 if is_better else self._n_vain + 1
        return self._n_vain >= self._patience
