"""How compiled loops share their work: even portions for the threads that there are."""

from __future__ import annotations

from itertools import pairwise

from arraylearn.backend.threads import get_num_threads
from arraylearn.backend.tuning import get_tuning

__all__ = ["even_portions"]


def even_portions(n: int, least: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into a portion for each thread; none smaller than `least`: a thread has its price."""
    least = max(1, int(get_tuning().thread_share * least))
    parts = max(1, min(get_num_threads(), n // least))
    bounds = [n * i // parts for i in range(parts + 1)]
    return list(pairwise(bounds))
