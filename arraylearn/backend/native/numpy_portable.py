"""Primitives for which array calls have nothing better than the portable way, but compiled loops have."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy as xp
import numpy as np

from arraylearn.backend.ops.distinct import number_by_sample

Host = np.ndarray[Any, Any]

__all__ = ["grow_bins", "grow_lists", "number_values", "weighted_splits"]


def grow_bins(*arguments: Any) -> None:
    return None


def grow_lists(*arguments: Any) -> None:
    return None


def number_values(columns: Host, most: int) -> tuple[Host, Host] | None:
    return number_by_sample(xp, columns, most)


def weighted_splits(*arguments: Any) -> None:
    return None
