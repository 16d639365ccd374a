"""Workers that need products of one kernel matrix, side by side: each round reads the rows once for all."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from arraylearn.backend.arrays.parallel import small_products
from arraylearn.backend.blas import parallel_blocks
from arraylearn.backend.namespace import accumulator_dtype, from_host, to_host
from arraylearn.selection.shared_matrix import SharedMatrix

__all__ = ["Request", "Worker", "run_together"]

Host = Any  # a NumPy array
Result = TypeVar("Result")

# Workers with fewer rows than this do too little between two words of Python to run on threads.
_WORTH_A_THREAD = 800
_CHUNK_ROWS = 32  # kernel rows that stay in the cache while they are used


class Request(NamedTuple):
    """A worker asks for the weighted sum of some rows of the matrix."""

    rows: Host  # (m,) ascending
    weights: Host  # (m,)


# It yields requests, is sent their answers (n,), and returns its result.
Worker = Generator[Request, Host, Result]


def run_together(store: SharedMatrix, workers: Sequence[Worker[Result]]) -> list[Result]:
    """Run all workers to their ends; return their results in their order."""
    results: dict[int, Result] = {}
    answers: list[tuple[int, Host]] = [(w, None) for w in range(len(workers))]

    def advance(item: tuple[int, Host]) -> tuple[int, Request | None]:
        w, answer = item
        try:
            return w, workers[w].send(answer)
        except StopIteration as end:
            results[w] = end.value
            return w, None

    n_rows = 0  # in the systems of the last round
    while answers:
        # between their requests the workers do not depend on each other
        if n_rows >= _WORTH_A_THREAD * len(answers):
            advanced = parallel_blocks(advance, answers)
        else:
            with small_products(store.matrix.place.xp):
                advanced = [advance(item) for item in answers]
        asked = [(w, request) for w, request in advanced if request is not None]
        n_rows = sum(int(request.rows.shape[0]) for _, request in asked)
        found = _multiply(store, [request for _, request in asked])
        answers = [(w, product) for (w, _), product in zip(asked, found, strict=True)]
    return [results[w] for w in range(len(workers))]


def _multiply(store: SharedMatrix, requests: Sequence[Request]) -> list[Host]:
    """Answer requests: the rows that any of them names are read once."""
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
