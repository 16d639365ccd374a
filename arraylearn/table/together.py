"""Schema and classes of data on a device, learned from one copy to the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host, is_array, locate, same_place, supports_float64
from arraylearn.backend.transfer import read_together
from arraylearn.table.labels import Labels, encode_labels
from arraylearn.table.read import learn_schema, nominal_positions
from arraylearn.table.schema import Column, Schema

__all__ = ["learn_schema_and_labels"]

_HALF = 1 << 32


def learn_schema_and_labels(
    X: Any, y: Any, categorical_features: Any = "from_dtype"
) -> tuple[Schema, Labels]:
    """Learn the columns of X and the classes of y, see `learn_schema` and `encode_labels`.

    Nominal columns and labels that live on the same GPU travel together: the host waits once, not twice.
    """
    if not _are_on_one_gpu(X, y):
        return learn_schema(X, categorical_features), encode_labels(y)
    idx = nominal_positions(X, categorical_features)
    if not idx:
        return learn_schema(X, None), encode_labels(y)
    place = locate(X)
    columns = place.xp.take(X, from_host(np.asarray(idx, dtype=np.int64), place), axis=1)
    on_host, labels = _read_exactly(place, columns, y)
    domains = dict(zip(idx, learn_schema(on_host, range(len(idx))).domains, strict=True))
    return Schema(
        tuple(
            Column(f"x{j}", "nominal", domains[j]) if j in domains else Column(f"x{j}", "numeric")
            for j in range(X.shape[1])
        )
    ), encode_labels(labels)


def _are_on_one_gpu(X: Any, y: Any) -> bool:
    if not is_array(X) or not is_array(y) or X.ndim != 2 or y.ndim != 1 or 0 in X.shape:
        return False
    place = locate(X)
    if "cuda" not in str(place.device).lower() or not same_place(place, locate(y)):
        return False
    is_real = not any(place.xp.isdtype(a.dtype, "complex floating") for a in (X, y))
    return is_real and supports_float64(place)


def _read_exactly(place: Place, *arrays: Array) -> list[Any]:
    """Copy arrays of numbers to the host in one go; integers travel as two halves, exact as floats."""
    xp, parts = place.xp, []
    for array in arrays:
        if xp.isdtype(array.dtype, "integral"):
            wide = xp.astype(array, xp.int64)
            high = wide // _HALF
            parts += [high, wide - high * _HALF]
        else:
            parts += [array]
    numbers = iter(read_together(place, *parts))
    result = []
    for array in arrays:
        name = str(array.dtype).rpartition(".")[2]
        if xp.isdtype(array.dtype, "integral"):
            high = next(numbers).astype(np.int64)
            result.append((high * _HALF + next(numbers).astype(np.int64)).astype(name))
        else:
            result.append(next(numbers).astype(name))
    return result
