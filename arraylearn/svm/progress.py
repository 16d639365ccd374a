"""Whether a solver still gets anywhere."""

from __future__ import annotations

__all__ = ["Progress"]

_BETTER = 0.9  # of the best gap so far
_GROWTH = 1e-10  # of the objective, over all looks since the last improvement: rounding can raise it, too


class Progress:
    """Watches the gap and the objective of a solve, and tells when rounding is all that moves them.

    Gaps rise and fall on the way, and far from the optimum the objective alone grows; a solve is stalled when
    neither has improved for many looks in a row.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._gap = float("inf")
        self._objective: float | None = None
        self._n_vain = 0

    def is_stalled(self, gap: float, objective: float) -> bool:
        """Take down a look at the solve, and say whether it has stalled."""
        before = objective if self._objective is None else self._objective
        is_better = gap < _BETTER * self._gap or objective > before + _GROWTH * abs(before)
        if is_better:
            self._gap = min(self._gap, gap)
        if is_better or self._objective is None:
            self._objective = max(before, objective)
        self._n_vain = 0 if is_better else self._n_vain + 1
        return self._n_vain >= self._patience
