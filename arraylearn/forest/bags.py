"""What is drawn for a forest: the rows that each tree sees, and the columns that its nodes look at."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST
from arraylearn.backend.random import as_generator
from arraylearn.grow.drawn_columns.drawn import Bags

__all__ = ["draw_bags", "draw_columns"]

# Draws of columns to choose from; each node takes one by its number, which comes from the seed of its tree.
_DRAWS = 8_192
_LEAST_DRAWS = 256
_DRAWN_NUMBERS = 1 << 21
_DRAW_SEED = 20_240_901


def draw_bags(generators: list[Any], n: int, weights: Any, n_draws: int | None) -> Bags:
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


def draw_columns(d: int, n_features: int) -> Any:
    """Draw columns (draws, n_features), in random order: of cuts that are equally good the first one wins.

    Which of the draws a node takes follows from the seed of its tree and its way from the root: not from the
    rows, the other trees, the threads or the backend.
    """
    n_draws = max(_LEAST_DRAWS, min(_DRAWS, _DRAWN_NUMBERS // d))
    keys = as_generator(_DRAW_SEED).random((n_draws, d))
    order = np.argsort(keys, axis=1)  # no two keys of a line are equal
    return np.asarray(order[:, :n_features], copy=True)  # and forget the others
