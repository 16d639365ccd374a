"""Random sets of columns, drawn once for all trees; each node considers one of these sets."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.random import as_generator

__all__ = ["draw_columns"]

# Number of sets. The seed of a node, which follows from that of its tree, decides which one the node takes.
_DRAWS = 8_192
_LEAST_DRAWS = 256
_DRAWN_NUMBERS = 1 << 21
_DRAW_SEED = 20_240_901


def draw_columns(d: int, n_features: int) -> HostArray:
    """Draw columns (draws, n_features), in random order: of cuts that are equally good the first one wins.

    Which of the draws a node takes follows from the seed of its tree and its path from the root, not from
    rows, other trees, threads or the backend.
    """
    n_draws = max(_LEAST_DRAWS, min(_DRAWS, _DRAWN_NUMBERS // d))
    keys = as_generator(_DRAW_SEED).random((n_draws, d))
    order = np.argsort(keys, axis=1)  # no two keys of a row are equal
    return np.asarray(order[:, :n_features], copy=True)  # a copy, to free the others
