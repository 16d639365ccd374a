"""NumPy body of `arraylearn.backend.ops.finite`: the extremes tell all but the rare case."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]

# Values of a chunk, whose two passes stay in the cache.
_CHUNK = 1 << 17
# Values from which threads pay: to wake them takes as long as a pass over a tenth of these.
_WORTH_A_THREAD = 1 << 22


def has_infinite(x: Host, or_nan: bool, limit: float) -> Host:
    step = max(1, _CHUNK // max(1, x.shape[-1] if x.ndim else 1))
    with np.errstate(over="ignore", invalid="ignore"):
        if x.ndim == 0 or x.shape[0] <= step:
            return np.asarray(_is_bad(x, or_nan, limit))
        chunks = (x[start : start + step] for start in range(0, x.shape[0], step))
        if x.size < _WORTH_A_THREAD:
            return np.asarray(any(_is_bad(chunk, or_nan, limit) for chunk in chunks))
        return np.asarray(any(parallel_map(lambda chunk: _is_bad(chunk, or_nan, limit), chunks)))


def _is_bad(x: Host, or_nan: bool, limit: float) -> bool:
    if not x.size:
        return False
    # NaN anywhere makes both extremes NaN, and every comparison false
    low, high = x.min(), x.max()
    if -limit <= low and high <= limit and -np.inf < low and high < np.inf:
        return False
    size = np.abs(x)
    is_beyond = size > limit if limit < np.inf else np.isinf(size)
    return bool(is_beyond.any()) or (or_nan and bool(np.isnan(size).any()))
