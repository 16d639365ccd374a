"""SMOTE and SMOTE-NC: synthetic rows between neighbours of a class, in the user's own kind of table."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import (
    Place,
    from_host,
    is_array,
    locate,
    move,
    native_float,
    read_flags,
    to_host,
)
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.backend.selector import choose_place
from arraylearn.checks import check_integer, refuse
from arraylearn.selection.resampling.neighbours import commonest_neighbour, median_deviation, nearest_rows
from arraylearn.selection.resampling.random_samplers import Sampler, Strategy, target_counts
from arraylearn.table import Schema, learn_schema, read_table
from arraylearn.table.frames import as_frame
from arraylearn.table.subsets import take_rows

__all__ = ["SMOTE"]


class _Synthesis(NamedTuple):
    """Synthetic rows: new numbers, and old rows whose categories they take."""

    base: HostArray  # (m,) the row each comes from
    numeric: Array  # (m, d) at the place of computation
    sources: list[HostArray]  # for each nominal column (m,) rows


class SMOTE(Sampler):
    r"""Make synthetic rows of the smaller classes, between a row and one of its nearest neighbours.

    .. math:: x_{new} = x_i + u\,(x_j - x_i), \qquad u \sim U(0, 1)

    Parameters
    ----------
    k_neighbors : int
        How many neighbours of the same class are candidates for j; a class of fewer rows uses them all.
    sampling_strategy : "auto", "minority", float or dict
        As for `RandomOverSampler`.
    categorical_features : "from_dtype", None, or sequence of int, bool or str
        Which columns are nominal, as in the classifiers. With such columns this is SMOTE-NC: a nominal column
        that differs adds the squared median of the class's standard deviations to a squared distance, and a
        synthetic row takes the commonest category of the neighbours (of equals the nearest one's).
    random_state : int, generator or None
        Seed; drawn on the host, so that every backend makes the same rows.
    backend : str or None
        Where to compute the distances; by default where `X` lives.

    Notes
    -----
    Distances are taken in chunks that fit the memory budget. The result has the library, device and frame
    type of `X`; integer columns become floats, because synthetic values lie between given ones.

    References
    ----------
    N. V. Chawla, K. W. Bowyer, L. O. Hall, W. P. Kegelmeyer, "SMOTE: synthetic minority over-sampling
    technique", JAIR 16, 2002.

    Examples
    --------
    >>> import numpy as np, arraylearn as al
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [10.0], [11.0]])
    >>> X_new, y_new = al.resample.SMOTE(random_state=0).fit_resample(X, [0, 0, 0, 0, 1, 1])
    >>> X_new.shape, bool(((X_new[6:] > 10) & (X_new[6:] < 11)).all())
    ((8, 1), True)
    """

    def __init__(
        self,
        *,
        k_neighbors: int = 5,
        sampling_strategy: Strategy = "auto",
        categorical_features: Any = "from_dtype",
        random_state: RandomState = None,
        backend: str | None = None,
    ) -> None:
        self.k_neighbors = k_neighbors
        self.sampling_strategy = sampling_strategy
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.backend = backend

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return all rows and labels, and the synthetic ones after them."""
        codes, classes, counts = self._encode(X, y)
        check_integer("k_neighbors", self.k_neighbors, 1)
        targets = target_counts(self.sampling_strategy, classes, counts, grow=True)
        schema = learn_schema(X, self.categorical_features)
        place = choose_place(locate(X), self.backend)
        table = read_table(X, schema, place)
        if any(read_flags(place, ~place.xp.all(place.xp.isfinite(table.numeric)))):
            raise ValueError(
                "Input X contains NaN or infinity; SMOTE needs finite numbers to interpolate. "
                "Impute or drop them."
            )
        rng = as_generator(self.random_state)
        parts = []
        for c, target in enumerate(targets):
            if target > counts[c]:
                if counts[c] < 2:
                    raise refuse("y", "must have two rows or more of a class to interpolate", classes[c])
                parts.append(self._between(place, table, (codes == c).nonzero()[0], target - counts[c], rng))
        if not parts:
            return X, y
        order = np.concat([np.arange(codes.shape[0]), *(part.base for part in parts)])
        return _append_synthetic(X, schema, place, parts), take_rows(y, order)

    def _between(self, place: Any, table: Any, members: HostArray, n_new: int, rng: Any) -> _Synthesis:
        """Make `n_new` rows of one class, whose rows are `members`."""
        xp = place.xp
        k = min(self.k_neighbors, members.shape[0] - 1)
        base, choice = rng.integers(members.shape[0], size=n_new), rng.integers(k, size=n_new)
        step = rng.random(n_new)
        own = from_host(members, place, xp.int64)
        x, codes = xp.take(table.numeric, own, axis=0), xp.take(table.codes, own, axis=1)
        near = nearest_rows(xp, x, codes, median_deviation(xp, x), k=k)
        start = from_host(base, place, xp.int64)
        chosen = xp.take(xp.reshape(near, (-1,)), from_host(base * k + choice, place, xp.int64), axis=0)
        share = from_host(step[:, None], place, x.dtype)
        origin = xp.take(x, start, axis=0)
        numeric = origin + share * (xp.take(x, chosen, axis=0) - origin)
        sources = [
            members.take(to_host(xp.take(commonest_neighbour(xp, codes[c, :], near), start, axis=0)))
            for c in range(codes.shape[0])
        ]
        return _Synthesis(members.take(base), numeric, sources)


def _append_synthetic(X: Any, schema: Schema, place: Place, parts: list[_Synthesis]) -> Any:
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
