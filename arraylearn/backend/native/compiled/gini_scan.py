"""What compiled growth on bins shares of the Gini gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.cpu.jit import compiled

Host = np.ndarray[Any, Any]

__all__ = ["FEW_CLASSES", "gain_of", "is_perfect"]

# Up to here scores are sums of squared surpluses, above sums of squared counts: see `gini_scores`.
FEW_CLASSES = 4


@compiled
def is_perfect(left: Host, counts: Host) -> bool:
    """Whether both sides hold one class each."""
    n_left, n_right = 0, 0
    for j in range(counts.shape[0]):
        n_left += left[j] > 0
        n_right += counts[j] > left[j]
    return n_left <= 1 and n_right <= 1


@compiled
def gain_of(score: float, counts: Host, size: int) -> np.float32:
    """Turn a score into a gain as `gini_gains` does, in float32."""
    total, c = float(size), counts.shape[0]
    if c > FEW_CLASSES:
        squares = 0
        for j in range(c):
            squares += counts[j] * counts[j]
        gained = (score - float(squares) / total) / total
    else:
        gained = score * (2.0 if c == 2 else 1.0) / (total * total)
    return np.float32(gained if gained > 0.0 else 0.0)
