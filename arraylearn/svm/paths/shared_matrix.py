"""A kernel matrix in memory that several problems share, and products of it for all of them at once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, to_host
from arraylearn.backend.threads import parallel_blocks, small_products
from arraylearn.kernels.objects import Precomputed
from arraylearn.svm.solvers.dual import KernelMatrix, KernelRows

__all__ = ["Request", "Routine", "SharedMatrix", "run_side_by_side"]

Result = TypeVar("Result")

_CHUNK_ROWS = 32  # rows that stay in the cache while they are used
# With fewer rows per routine than this, the interpreter lock leaves nothing to gain from threads.
_WORTH_A_THREAD = 800


class SharedMatrix(KernelRows):
    """All rows of a symmetric kernel matrix: the place of a row in the buffer is its position.

    Parameters
    ----------
    place : Place
        Where the matrix is.
    matrix : array (n, n)
        The kernel matrix.
    dtype : dtype
        The float dtype in which rows are used; exact products use the values of `matrix`.
    """

    def __init__(self, place: Place, matrix: Array, dtype: Any) -> None:
        self.source = KernelMatrix(place, matrix, Precomputed())
        self.matrix = self.source.of_dtype(dtype)
        self.n_kept = self.source.n
        self.dtype = dtype
        self._buffer = self.matrix.x

    def widened(self) -> KernelRows:
        """Return a cache of rows in the accumulator's dtype, for half as many rows as there are."""
        wide = accumulator_dtype(self.matrix.place)
        return self if self.dtype == wide else KernelRows(self.source, wide, max(2, self.n_kept // 2))

    def fetch(self, rows: list[int]) -> tuple[Array, Array]:
        """Return the positions of rows, which are also their places in the buffer."""
        idx = self.matrix.positions(rows)
        return idx, idx

    def exact_product(self, row_idx: Array | None, column_idx: Array, weights: Array) -> Array:
        """Multiply rows of the matrix (None: all) by weights of some columns, in the accumulator's dtype.

        A product with all rows widens 32 rows at a time, never the matrix.
        """
        place = self.matrix.place
        xp, wide = place.xp, accumulator_dtype(place)
        weights = xp.astype(weights, wide, copy=False)
        if row_idx is not None:
            return xp.astype(self.source.block(row_idx, column_idx), wide, copy=False) @ weights
        total = xp.zeros((self.matrix.n,), dtype=wide, device=place.device)
        for start in range(0, column_idx.shape[0], _CHUNK_ROWS):
            some = slice(start, min(start + _CHUNK_ROWS, column_idx.shape[0]))
            rows = xp.take(self.source.x, column_idx[some], axis=0)
            total = total + weights[some] @ xp.astype(rows, wide, copy=False)
        return total

    def between(self, rows: HostArray) -> SharedMatrix:
        """Return the matrix between some rows."""
        place = self.matrix.place
        if rows.shape[0] == self.matrix.n:
            return self
        idx = self.matrix.positions(rows)
        return SharedMatrix(place, self.block(idx, idx), self.dtype)

    def multiply(self, rows: HostArray, weights: HostArray) -> HostArray:
        """Return the weighted sum (n,) of some rows, on the host."""
        place = self.matrix.place
        used = weights.nonzero()[0]
        idx = self.matrix.positions(rows.take(used))
        return to_host(self.combine(idx, from_host(weights.take(used), place, accumulator_dtype(place))))


class Request(NamedTuple):
    """The weighted sum of some rows of the matrix, as a routine asks for it."""

    rows: HostArray  # (m,) ascending
    weights: HostArray  # (m,)


# A computation that yields requests, is sent their answers (n,), and returns its result.
Routine = Generator[Request, HostArray, Result]


def run_side_by_side(store: SharedMatrix, routines: Sequence[Routine[Result]]) -> list[Result]:
    """Run all routines to their ends and return their results, in order.

    One round::

        routine 0 -- Request -->  +---------------------+  -- answer (n,) --> routine 0
        routine 1 -- Request -->  | one pass over the   |  -- answer (n,) --> routine 1
        routine 2 (ended)         | rows of any request |
                                  +---------------------+
    """
    results: dict[int, Result] = {}
    answers: list[tuple[int, HostArray | None]] = [(r, None) for r in range(len(routines))]

    def advance(item: tuple[int, HostArray | None]) -> tuple[int, Request | None]:
        r, answer = item
        try:
            return r, next(routines[r]) if answer is None else routines[r].send(answer)
        except StopIteration as end:
            results[r] = end.value
            return r, None

    n_rows = 0  # of the requests of the last round
    while answers:
        # between their requests the routines do not depend on each other
        if n_rows >= _WORTH_A_THREAD * len(answers):
            advanced = parallel_blocks(advance, answers)
        else:
            with small_products(store.matrix.place.xp):
                advanced = [advance(item) for item in answers]
        asked = [(r, request) for r, request in advanced if request is not None]
        n_rows = sum(int(request.rows.shape[0]) for _, request in asked)
        found = _multiply(store, [request for _, request in asked])
        answers = [(r, product) for (r, _), product in zip(asked, found, strict=True)]
    return [results[r] for r in range(len(routines))]


def _multiply(store: SharedMatrix, requests: Sequence[Request]) -> list[HostArray]:
    """Answer requests; a row that several of them name is read once."""
    place = store.matrix.place
    xp, wide = place.xp, accumulator_dtype(place)
    if not requests:
        return []
    if len(requests) == 1:
        return [store.multiply(*requests[0])]
    is_asked = np.zeros(store.matrix.n, dtype=bool)
    for request in requests:
        is_asked[request.rows] = True
    union = is_asked.nonzero()[0]
    weights = np.zeros((len(requests), union.shape[0]))
    position = np.cumulative_sum(np.astype(is_asked, np.int64)) - 1
    for k, request in enumerate(requests):
        weights[k, position[request.rows]] = request.weights
    matrix = store.matrix.x
    idx, narrow = from_host(union, place, xp.int64), from_host(weights, place, matrix.dtype)
    total = xp.zeros((len(requests), store.matrix.n), dtype=wide, device=place.device)
    with small_products(xp):
        for start in range(0, union.shape[0], _CHUNK_ROWS):
            some = slice(start, start + _CHUNK_ROWS)
            total += narrow[:, some] @ xp.take(matrix, idx[some], axis=0)
    return list(to_host(total))
