"""Lists cut into groups for threads."""

from __future__ import annotations

from itertools import pairwise

from arraylearn.backend.threads import get_num_threads

__all__ = ["line_groups"]

# Positions of all lists from which a second thread pays.
_WORTH_A_THREAD = 100_000


def line_groups(d: int, m: int) -> list[tuple[int, int]]:
    """Cut the lists into one group for each thread that pays."""
    n_groups = min(d, get_num_threads()) if d * m >= _WORTH_A_THREAD else 1
    bounds = [round(d * g / n_groups) for g in range(n_groups + 1)]
    return list(pairwise(bounds))
