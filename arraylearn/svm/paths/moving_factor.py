r"""Linear systems of the kernel matrix between some rows, which change a little from call to call.

A Cholesky factor of the matrix between some base rows serves the sets near them. Rows that joined (A) border
the system, and rows that left (R) are held at zero by multipliers,

.. math:: \begin{pmatrix} K_{00} & K_{0A} & E_R \\ K_{A0} & K_{AA} & 0 \\ E_R^T & 0 & 0 \end{pmatrix}
          \begin{pmatrix} x_0 \\ x_A \\ \lambda \end{pmatrix} =
          \begin{pmatrix} r_0 \\ r_A \\ 0 \end{pmatrix},

so that a change of k rows costs :math:`m^2 k` operations instead of :math:`m^3 / 3` and the gathering of
:math:`m^2` kernel values. Columns of :math:`L^{-1} (K_{0A}, E_R)` are kept: a row that leaves and joins again
is computed once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.gather import put
from arraylearn.backend.arrays.linear import cholesky, solve_triangular
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.svm.paths.shared_matrix import SharedMatrix

__all__ = ["MovingFactor", "Solver"]


# What is added to the diagonal, as a share of its largest value, by the precision of the factor.
_RIDGE_NARROW, _RIDGE_WIDE = 1e-6, 1e-9
# Costs in units of one operation of a factorization: moving a number in memory, and an operation of the small
# systems in float64.
_MOVE, _SMALL = 40.0, 6.0


class Base(NamedTuple):
    """A factor and what is known about the rows that joined or left since."""

    rows: HostArray  # (m,)
    factor: Array  # (m, m) lower
    ridge: float
    border: Array  # (m, k): L^-1 times the columns of rows that joined, and unit columns of rows that left
    inner: Array  # (k, k): products of the border with itself, in the widest float


class Solver(NamedTuple):
    """A factored system of the rows `free`."""

    place: Place
    base: Base
    kept: HostArray  # positions in `free` of the base rows that stayed
    kept_base: HostArray  # where they are among the base rows
    joined: HostArray  # positions in `free` of the rows that joined
    columns: tuple[Array, Array] | None  # the border's columns of rows that joined, and of rows that left
    small: tuple[Array, Array, Array] | None  # factors of the system of the border

    def solve(self, right: HostArray) -> HostArray:
        """Solve for right-hand sides (m, c)."""
        xp, place = self.place.xp, self.place
        dtype, wide = self.base.factor.dtype, accumulator_dtype(place)
        n_base = self.base.rows.shape[0]
        right_base = np.zeros((n_base, right.shape[1]))
        right_base[self.kept_base] = right[self.kept]
        upper = xp.matrix_transpose(self.base.factor)
        z = solve_triangular(xp, self.base.factor, from_host(right_base, place, dtype))
        result = np.empty(right.shape)
        if self.small is not None and self.columns is not None:
            came, went = self.columns
            wide_z = xp.astype(z, wide)
            own, across, schur = self.small
            share = solve_triangular(xp, own, xp.matrix_transpose(went) @ wide_z)
            rest = from_host(right[self.joined], place, wide) - xp.matrix_transpose(came) @ wide_z
            rest = rest + xp.matrix_transpose(across) @ share
            x_joined = _solve_factored(xp, schur, rest)
            held = solve_triangular(xp, xp.matrix_transpose(own), share - across @ x_joined, upper=True)
            z = xp.astype(wide_z - came @ x_joined - went @ held, dtype)
            result[self.joined] = to_host(x_joined)
        found = to_host(solve_triangular(xp, upper, z, upper=True))
        result[self.kept] = found[self.kept_base]
        return result


class MovingFactor:
    """Keep a factor near the rows that were asked for last.

    Parameters
    ----------
    store : SharedMatrix
        The kernel matrix.
    """

    def __init__(self, store: SharedMatrix) -> None:
        self.store = store
        self.place = store.matrix.place
        self.base: Base | None = None
        self.joined_column: dict[int, int] = {}  # columns of the border, by the row that joined
        self.left_column: dict[int, int] = {}  # and by the row that left
        self.n_factored = 0

    def at(self, free: HostArray) -> Solver | None:
        """Return a solver for the matrix between the ascending rows `free`; None if it is not definite."""
        if self.base is not None:
            changes = self._changes(free)
            if self._is_cheaper(free, changes) and (solver := self._update(free, changes)) is not None:
                return solver
        return self._refactor(free)

    def forget(self) -> None:
        """Drop the factor: the next system is factored anew."""
        self.base = None

    def _changes(self, free: HostArray) -> tuple[HostArray, HostArray]:
        """Return the rows that joined and those that left."""
        base = self.base.rows  # type: ignore[union-attr]
        is_base, is_free = (np.zeros(self.store.matrix.n, dtype=bool) for _ in range(2))
        is_base[base], is_free[free] = True, True
        return free[~is_base[free]], base[~is_free[base]]

    def _is_cheaper(self, free: HostArray, changes: tuple[HostArray, HostArray]) -> bool:
        m, n_base = free.shape[0], self.base.rows.shape[0]  # type: ignore[union-attr]
        joined, left = changes
        k = joined.shape[0] + left.shape[0]
        n_new = sum(row not in self.joined_column for row in joined.tolist())
        n_new += sum(row not in self.left_column for row in left.tolist())
        anew = m**3 / 3 + 1.5 * _MOVE * m**2
        n_all = len(self.joined_column) + len(self.left_column) + n_new
        update = n_new * n_base * (n_base + 2 * n_all + _MOVE) + _MOVE * n_all * (n_base / 2 + n_all)
        small = _SMALL * k**3 / 3 + 3 * _MOVE * k**2
        return bool(get_tuning().svm_refactor_cost * (update + small) < anew)

    def _refactor(self, free: HostArray) -> Solver | None:
        """Factor the matrix between the rows, in the store's precision or else in the widest."""
        xp, place = self.place.xp, self.place
        self.base, self.joined_column, self.left_column = None, {}, {}
        idx = from_host(free, place, xp.int64)
        block = self.store.block(idx, idx)
        wide = accumulator_dtype(place)
        m = free.shape[0]
        at = xp.arange(m, dtype=xp.int64, device=place.device) * (m + 1)
        diagonal = xp.linalg.diagonal(block)
        level = float(xp.max(diagonal))
        for dtype, share in ((block.dtype, _RIDGE_NARROW), (wide, _RIDGE_WIDE)):
            flat = xp.reshape(xp.astype(block, dtype, copy=False), (-1,))
            lifted = put(xp, flat, at, xp.astype(diagonal, dtype) + share * level)
            factor, is_definite = cholesky(xp, xp.reshape(lifted, (m, m)))
            self.n_factored += 1
            if bool(is_definite):
                self.base = Base(
                    free,
                    factor,
                    share * level,
                    xp.zeros((m, 0), dtype=dtype, device=place.device),
                    xp.zeros((0, 0), dtype=wide, device=place.device),
                )
                every = np.arange(m)
                return Solver(place, self.base, every, every, every[:0], None, None)
        return None

    def _update(self, free: HostArray, changes: tuple[HostArray, HostArray]) -> Solver | None:
        """Border the factor with the rows that changed."""
        xp, place = self.place.xp, self.place
        joined, left = changes
        base = self._extend(joined, left)
        came, went = (
            from_host([column[row] for row in rows.tolist()], place, xp.int64)
            for column, rows in ((self.joined_column, joined), (self.left_column, left))
        )
        small = self._factor_border(base, joined, came, went)
        if small is None:
            return None
        is_joined = np.isin(free, joined)
        kept = (~is_joined).nonzero()[0]
        wide = accumulator_dtype(place)
        columns = tuple(xp.astype(xp.take(base.border, part, axis=1), wide) for part in (came, went))
        where = np.searchsorted(base.rows, free[kept])
        return Solver(place, base, kept, where, is_joined.nonzero()[0], columns, small)

    def _extend(self, joined: HostArray, left: HostArray) -> Base:
        """Compute the columns of the border that are not known yet."""
        xp, place, base = self.place.xp, self.place, self.base
        assert base is not None
        fresh_in = [row for row in joined.tolist() if row not in self.joined_column]
        fresh_out = [row for row in left.tolist() if row not in self.left_column]
        if not fresh_in and not fresh_out:
            return base
        n_base, n_known = base.rows.shape[0], base.border.shape[1]
        units = np.zeros((n_base, len(fresh_out)))
        units[np.searchsorted(base.rows, fresh_out), np.arange(len(fresh_out))] = 1.0
        rows, columns = (from_host(part, place, xp.int64) for part in (fresh_in, base.rows))
        right = [
            xp.matrix_transpose(self.store.block(rows, columns)),
            from_host(units, place, base.border.dtype),
        ]
        right = [xp.astype(part, base.border.dtype, copy=False) for part in right]
        more = solve_triangular(xp, base.factor, xp.concat(right, axis=1))
        border = xp.concat([base.border, more], axis=1)
        wide = base.inner.dtype
        strip = xp.astype(xp.matrix_transpose(more) @ border, wide)  # (new, all)
        top = xp.concat([base.inner, xp.matrix_transpose(strip[:, :n_known])], axis=1)
        self.base = base._replace(border=border, inner=xp.concat([top, strip], axis=0))
        n_joined = n_known + len(fresh_in)
        self.joined_column |= {row: n_known + i for i, row in enumerate(fresh_in)}
        self.left_column |= {row: n_joined + i for i, row in enumerate(fresh_out)}
        return self.base

    def _factor_border(
        self, base: Base, joined: HostArray, came: Array, went: Array
    ) -> tuple[Array, Array, Array] | None:
        """Factor the system of the rows that joined and left; None if rounding errors made it indefinite."""
        xp, place = self.place.xp, self.place
        wide = base.inner.dtype
        rows = from_host(joined, place, xp.int64)
        inner_in, inner_out = xp.take(base.inner, came, axis=0), xp.take(base.inner, went, axis=0)
        own, is_definite = cholesky(xp, xp.take(inner_out, went, axis=1))
        across = solve_triangular(xp, own, xp.take(inner_out, came, axis=1))
        schur = xp.astype(self.store.block(rows, rows), wide) - xp.take(inner_in, came, axis=1)
        schur = schur + xp.matrix_transpose(across) @ across
        schur = schur + base.ridge * xp.eye(joined.shape[0], dtype=wide, device=place.device)
        factor, is_also = cholesky(xp, schur)
        return (own, across, factor) if bool(is_definite & is_also) else None


def _solve_factored(xp: Any, factor: Array, right: Array) -> Array:
    halfway = solve_triangular(xp, factor, right)
    return solve_triangular(xp, xp.matrix_transpose(factor), halfway, upper=True)
