"""Synthetic rows, appended to the user's own kind of table."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v2 as nw

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import Place, from_host, is_array, locate, move, native_float, to_host
from arraylearn.table import Schema
from arraylearn.table.frames import as_frame
from arraylearn.table.subsets import take_rows

__all__ = ["Synthesis", "append_synthetic"]


class Synthesis(NamedTuple):
    """Synthetic rows: new numbers, and old rows whose categories they take."""

    base: HostArray  # (m,) the row each comes from
    numeric: Array  # (m, d) at the place of computation
    sources: list[HostArray]  # for each nominal column (m,) rows


def append_synthetic(X: Any, schema: Schema, place: Place, parts: list[Synthesis]) -> Any:
    """Return `X` with the synthetic rows below, as the same kind of table."""
    xp = place.xp
    numeric = xp.concat([part.numeric for part in parts])
    base = [row for part in parts for row in part.base.tolist()]
    sources = [
        [row for part in parts for row in part.sources[c].tolist()] for c in range(len(schema.nominal_idx))
    ]
    if is_array(X) and getattr(X.dtype, "kind", "f") in "fiub":
        return _append_to_array(X, schema, numeric, sources)
    columns = to_host(numeric)
    if (frame := as_frame(X)) is not None:
        return _append_to_frame(frame, schema, columns, base, sources)
    return _append_objects(X, schema, columns, base, sources)


def _append_to_array(X: Array, schema: Schema, numeric: Array, sources: list[list[int]]) -> Array:
    home = locate(X)
    xp = home.xp
    dtype = native_float(X, home)
    numeric = xp.astype(move(numeric, home), dtype, copy=False)
    old = xp.astype(X, dtype, copy=False)
    if not sources:
        return xp.concat([old, numeric])
    columns: dict[int, Array] = {j: numeric[:, i] for i, j in enumerate(schema.numeric_idx)}
    for j, rows in zip(schema.nominal_idx, sources, strict=True):
        columns[j] = xp.take(old[:, j], from_host(rows, home, xp.int64), axis=0)
    return xp.concat([old, xp.stack([columns[j] for j in range(schema.n_columns)], axis=1)])


def _append_to_frame(
    frame: Any, schema: Schema, numeric: HostArray, base: list[int], sources: list[list[int]]
) -> Any:
    labels = frame.columns
    new = frame[base]
    made = []
    for i, j in enumerate(schema.numeric_idx):
        kind = nw.Float32() if frame.get_column(labels[j]).dtype == nw.Float32 else nw.Float64()
        frame = frame.with_columns(frame.get_column(labels[j]).cast(kind))
        made.append(nw.new_series(labels[j], numeric[:, i].tolist(), kind, backend=frame.implementation))
    for j, rows in zip(schema.nominal_idx, sources, strict=True):
        made.append(nw.maybe_reset_index(frame.get_column(labels[j])[rows]))
    new = nw.maybe_reset_index(new).with_columns(*made)
    return nw.maybe_reset_index(nw.concat([frame, new], how="vertical")).to_native()


def _append_objects(
    X: Any, schema: Schema, numeric: HostArray, base: list[int], sources: list[list[int]]
) -> Any:
    """Append to an array of objects, or to a list of rows."""
    rows = [list(X[i]) for i in base]
    for new, values in zip(rows, numeric.tolist(), strict=True):
        for j, value in zip(schema.numeric_idx, values, strict=True):
            new[j] = value
    for j, origins in zip(schema.nominal_idx, sources, strict=True):
        for new, origin in zip(rows, origins, strict=True):
            new[j] = X[origin][j]
    if not hasattr(X, "dtype"):
        return [*X, *rows]
    n = X.shape[0]
    grown = take_rows(X, from_host([*range(n), *base], locate(X)))
    for i, new in enumerate(rows):
        grown[n + i] = new
    return grown
