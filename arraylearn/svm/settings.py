"""What a caller may ask of every solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Settings"]


class Settings(NamedTuple):
    """When to stop, how much memory to use, and whom to tell."""

    tol: float = 1e-3  # largest violation of the optimality conditions
    max_iter: int = -1  # pair steps (Newton steps of the interior point); -1 for no limit
    cache_bytes: int = 200 << 20
    report: Callable[[int, float], None] | None = None  # called with the steps so far and the gap

    def step_limit(self, n: int) -> int:
        """Return how many pair steps n rows may take; without a limit of the caller's, LIBSVM's own."""
        return self.max_iter if self.max_iter >= 0 else max(10_000_000, 100 * n)
