"""The rows that are drawn for each tree of a forest."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST
from arraylearn.grow.drawn_columns.drawn import Bags

__all__ = ["draw_bags"]


def draw_bags(
    generators: list[np.random.Generator], n: int, weights: HostArray | None, n_draws: int | None
) -> Bags:
    """Draw the rows of some trees, each from a generator of its own, in proportion to the weights.

    Where `n_draws` is None, every tree has all rows, each as often as its weight, an integer.
    """
    rows, drawn, seeds = [], [], []
    ends = None if weights is None else np.cumulative_sum(weights) / float(weights.sum())
    for generator in generators:
        seeds.append(int(generator.integers(2**63 - 1)))
        if n_draws is None:
            times = np.ones(n, dtype=np.int64) if weights is None else np.astype(weights, np.int64)
        else:
            draws = generator.integers(0, n, n_draws)
            if ends is not None:
                draws = np.searchsorted(ends, generator.random(n_draws), side="right")
                draws = np.minimum(draws, n - 1)
            times = histogram(HOST.xp, draws, n)
        rows.append(np.nonzero(times)[0])
        drawn.append(times[rows[-1]])
    sizes = np.asarray([part.shape[0] for part in rows], dtype=np.int64)
    return Bags(np.concat(rows), np.concat(drawn), sizes, np.asarray(seeds, dtype=np.uint64))
