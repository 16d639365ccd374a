"""Products of one kernel matrix for several computations: each round reads the matrix rows once for all."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from arraylearn.backend.namespace import accumulator_dtype, from_host, to_host
from arraylearn.backend.threads import parallel_blocks, small_products
from arraylearn.svm.paths.shared_matrix import CHUNK_ROWS, SharedMatrix

__all__ = ["Request", "Routine", "run_side_by_side"]

Host = Any  # a NumPy array
Result = TypeVar("Result")

# With fewer rows per routine than this, the interpreter lock leaves nothing to gain from threads.
_WORTH_A_THREAD = 800


class Request(NamedTuple):
    """The weighted sum of some rows of the matrix, as a routine asks for it."""

    rows: Host  # (m,) ascending
    weights: Host  # (m,)


# A computation that yields requests, is sent their answers (n,), and returns its result.
Routine = Generator[Request, Host, Result]


def run_side_by_side(store: SharedMatrix, routines: Sequence[Routine[Result]]) -> list[Result]:
    """Run all routines to their ends and return their results, in order.

    One round::

        routine 0 -- Request -->  +---------------------+  -- answer (n,) --> routine 0
        routine 1 -- Request -->  | one pass over the   |  -- answer (n,) --> routine 1
        routine 2 (ended)         | rows of any request |
                                  +---------------------+
    """
    results: dict[int, Result] = {}
    answers: list[tuple[int, Host]] = [(r, None) for r in range(len(routines))]

    def advance(item: tuple[int, Host]) -> tuple[int, Request | None]:
        r, answer = item
        try:
            return r, routines[r].send(answer)
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


def _multiply(store: SharedMatrix, requests: Sequence[Request]) -> list[Host]:
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
        for start in range(0, union.shape[0], CHUNK_ROWS):
            some = slice(start, start + CHUNK_ROWS)
            total += narrow[:, some] @ xp.take(matrix, idx[some], axis=0)
    return list(to_host(total))
