"""A two-class support vector machine for rising prices C: each starts from the multipliers of the one before.

Newton steps on the set of free multipliers (with a factor that is updated from set to set) were tried as
well: beside compiled pair steps they gained less than the spread of the measurements (without Numba, a search
takes 2.3 times as long as it did with them).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import to_host
from arraylearn.svm.paths.shared_matrix import SharedMatrix
from arraylearn.svm.solvers.decomposition import decompose
from arraylearn.svm.solvers.dual import KernelMatrix, Settings, classification_at, find_offset
from arraylearn.svm.solvers.stages import solve_problems
from arraylearn.svm.tasks import rescale_start

__all__ = ["Path", "Point", "follow_path", "follow_together"]


class Point(NamedTuple):
    """The solution for one price, on the host."""

    beta: HostArray  # (n,) signed multipliers
    product: HostArray  # (n,) K beta: the decision values of all rows, less the offset
    offset: float


class Path(NamedTuple):
    """A two-class problem whose price rises."""

    rows: HostArray  # (m,): positions in the kernel matrix
    sign: HostArray  # (m,): +1.0 or -1.0
    share: HostArray  # (m,): the bound of each multiplier in units of the price; 0: the row takes no part


def follow_together(
    matrix: KernelMatrix, paths: Sequence[Path], prices: Sequence[float], settings: Settings
) -> Iterator[list[Point]]:
    """Yield the solutions of all paths for each of the ascending prices: small problems, as one batch."""
    place, before = matrix.place, 0.0
    members = [matrix.positions(path.rows) for path in paths]
    betas = [np.zeros_like(path.sign) for path in paths]
    for price in prices:
        problems = [
            classification_at(
                place, sign, price * share, rescale_start(beta, before * share, sign, price * share)
            )
            for (_, sign, share), beta in zip(paths, betas, strict=True)
        ]
        most = max(price * float(path.share.max()) for path in paths)
        found = solve_problems(matrix, members, problems, settings, bound=most)
        betas, before = [to_host(one.beta) for one in found], price
        yield [
            Point(
                beta,
                path.sign - to_host(one.gradient),
                float(find_offset(place.xp, one.beta, one.gradient, problem)),
            )
            for beta, path, one, problem in zip(betas, paths, found, problems, strict=True)
        ]


def follow_path(
    store: SharedMatrix, sign: HostArray, share: HostArray, prices: Sequence[float], settings: Settings
) -> Iterator[Point]:
    """Yield the solution for each of the ascending prices.

    Parameters
    ----------
    store : SharedMatrix
        The kernel matrix (n, n).
    sign : NumPy array (n,)
        +1.0 or -1.0.
    share : NumPy array (n,)
        The bound of each multiplier in units of the price; 0 for a row that takes no part.
    prices : ascending floats
        The values of C.
    settings : Settings
        When to stop.
    """
    place = store.matrix.place
    point: Point | None = None
    bound = 0.0 * share
    for price in prices:
        # where no multiplier is at its bound, a larger one changes nothing
        if point is None or (abs(point.beta) >= bound)[share > 0].any():
            start = None if point is None else rescale_start(point.beta, bound, sign, price * share)
            problem = classification_at(place, sign, price * share, start)
            found = decompose(store, problem, settings)
            offset = float(find_offset(place.xp, found.beta, found.gradient, problem))
            point = Point(to_host(found.beta), sign - to_host(found.gradient), offset)
        bound = price * share
        yield point
