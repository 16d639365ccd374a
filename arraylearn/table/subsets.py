"""Some rows or columns of whatever a user passes: arrays of any library, data frames, series, lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import HOST, from_host, is_array, locate
from arraylearn.table.frames import as_frame

__all__ = ["count_rows", "take_columns", "take_rows"]


def count_rows(X: Any) -> int:
    """Return the number of rows of a table or of labels."""
    shape = getattr(X, "shape", None)
    if not shape and hasattr(X, "__array__"):
        shape = np.asarray(X).shape
    return int(shape[0]) if shape else len(X)


def take_rows(X: Any, idx: HostArray) -> Any:
    """Return the rows at the positions `idx` (host integers), as the same kind of object where it lives."""
    if is_array(X):
        place = locate(X)
        return place.xp.take(X, from_host(idx, place, place.xp.int64), axis=0)
    if (frame := as_frame(X)) is not None:
        return frame[idx].to_native()
    if hasattr(X, "tocsr"):  # sparse rows, for the learners of others
        return X.tocsr()[idx]
    if hasattr(X, "__array__"):
        return np.asarray(X)[idx]
    return type(X)(X[i] for i in idx) if isinstance(X, list | tuple) else [X[i] for i in idx]


def take_columns(X: Any, idx: HostArray) -> Any:
    """Return the columns of an array at the positions `idx` (host integers)."""
    if not is_array(X):
        X = from_host(X, HOST)
    place = locate(X)
    return place.xp.take(X, from_host(idx, place, place.xp.int64), axis=1)
