"""SMOTE and SMOTE-NC: synthetic rows between neighbours of a class, in the user's own kind of table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.checks import check_integer, refuse
from arraylearn.selection.resampling.neighbours import commonest_neighbour, median_deviation, nearest_rows
from arraylearn.selection.resampling.random_samplers import Sampler, Strategy
from arraylearn.selection.resampling.synthetic import Synthesis, append_synthetic
from arraylearn.table import Table
from arraylearn.table.subsets import take_rows

__all__ = ["SMOTE"]


@dataclass(kw_only=True, eq=False, repr=False)
class SMOTE(Sampler):
    r"""Make synthetic rows of the smaller classes, between a row and one of its nearest neighbours.

    .. math:: x_{new} = x_i + u\,(x_j - x_i), \qquad u \sim U(0, 1)

    Parameters
    ----------
    k_neighbors : int
        How many neighbours of the same class are candidates for j; a class of fewer rows uses them all.
    sampling_strategy : str, float or dict
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

    _accepts_missing: ClassVar[bool] = False
    _accepts_infinity: ClassVar[bool] = False

    k_neighbors: int = 5
    sampling_strategy: Strategy = "auto"
    categorical_features: Any = "from_dtype"
    random_state: RandomState = None
    backend: str | None = None

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return all rows and labels, and the synthetic ones after them."""
        check_integer("k_neighbors", self.k_neighbors, 1)
        codes, classes, counts, targets, batch = self._plan(X, y)
        place, table = batch.place, batch.table
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
        return append_synthetic(X, table.schema, place, parts), take_rows(y, order)

    def _between(
        self, place: Place, table: Table, members: HostArray, n_new: int, rng: np.random.Generator
    ) -> Synthesis:
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
        return Synthesis(members.take(base), numeric, sources)
