"""Nominal attributes: counts of every value by class, and the probabilities estimated from them.

The cells of all attributes lie in one run, as in `arraylearn.backend.ops.ragged`: the first cell of each
attribute is for the missing value, the others are its values in the order of the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.ragged import count_categories, look_up_sums
from arraylearn.backend.arrays.segments import segment_sum
from arraylearn.bayes.posterior import log_or_never

__all__ = [
    "Cells",
    "Smoothing",
    "cell_offsets",
    "count_categories",
    "log_probabilities",
    "look_up",
    "look_up_sums",
    "make_cells",
]


class Smoothing(NamedTuple):
    """How probabilities are estimated: (count + extra weight * prior) / (total + extra weight)."""

    laplace: float  # added to every count
    m: float | None  # the m of the m-estimate, which replaces `laplace`
    is_marginal: bool  # whether the prior of the m-estimate is the frequency over all classes


class Cells(NamedTuple):
    """What is known of the cells without looking at data."""

    column: Array  # (n_cells,) int64: the attribute of each cell
    is_value: Array  # (n_cells, 1) bool: False for the missing value's cell
    prior: Array  # (n_cells, 1): prior probability of the value, for the m-estimate
    n_values: Array  # (n_cells, 1): number of values of the cell's attribute


def cell_offsets(n_values: Sequence[int]) -> tuple[int, ...]:
    """Return the first cell of each attribute, and the number of all cells."""
    return tuple(accumulate((n + 1 for n in n_values), initial=0))


def make_cells(xp: Namespace, counts: Array, n_values: Sequence[int], prior: Sequence[float] | None) -> Cells:
    """Describe the cells next to their counts; `prior` has one number per cell, None means uniform."""
    device = array_api_compat.device(counts)
    column, is_value, sizes = [], [], []
    for j, n in enumerate(n_values):
        column += [j] * (n + 1)
        is_value += [False] + [True] * n
        sizes += [float(max(1, n))] * (n + 1)
    size = xp.asarray(sizes, dtype=counts.dtype, device=device)[:, None]
    given = 1.0 / size if prior is None else xp.asarray(prior, dtype=counts.dtype, device=device)[:, None]
    return Cells(
        xp.asarray(column, dtype=xp.int64, device=device),
        xp.asarray(is_value, dtype=xp.bool, device=device)[:, None],
        given,
        size,
    )


def log_probabilities(xp: Namespace, counts: Array, cells: Cells, smoothing: Smoothing, d: int) -> Array:
    r"""Estimate the log probability of every value of every attribute in each class.

    .. math:: P(a_j = v \mid c) = \frac{n_{jvc} + \gamma}{n_{jc} + \gamma V_j} \quad\text{(Laplace)}, \qquad
              \frac{n_{jvc} + m\,p_{jv}}{n_{jc} + m} \quad\text{(m-estimate)}

    with :math:`n_{jc}` the weight of the rows of class c whose attribute j is known.

    Parameters
    ----------
    counts : float array (n_cells, k)
        Weights by cell and class.
    cells : Cells
        Of `make_cells`.
    smoothing : Smoothing
        Which estimate.
    d : int
        Number of attributes.

    Returns
    -------
    array (n_cells, k)
        ``-inf`` for what never happens; 0 in the cells of the missing value, which is left out of the
        product. Where a class knows nothing of an attribute, all its values are equally likely.
    """
    known = xp.where(cells.is_value, counts, 0.0)
    total = xp.take(segment_sum(xp, known, cells.column, d), cells.column, axis=0)
    total = xp.astype(total, counts.dtype, copy=False)
    prior = cells.prior
    if smoothing.m is None:
        extra = smoothing.laplace * cells.n_values
        prior = 1.0 / cells.n_values
    else:
        extra = smoothing.m * xp.ones_like(cells.n_values)
        if smoothing.is_marginal:
            value, attribute = xp.sum(known, axis=1, keepdims=True), xp.sum(total, axis=1, keepdims=True)
            prior = xp.where(attribute > 0, value / xp.where(attribute > 0, attribute, 1.0), prior)
    weight = total + extra
    estimate = (known + extra * prior) / xp.where(weight > 0, weight, 1.0)
    estimate = xp.where(weight > 0, estimate, 1.0 / cells.n_values)
    return xp.where(cells.is_value, log_or_never(xp, estimate), 0.0)


def look_up(xp: Namespace, codes: Array, offsets: Sequence[int], table: Array) -> Array:
    """Return the log probability (n, d, k) of each row's values; 0 for missing ones."""
    d, n = codes.shape
    first = xp.asarray(offsets[:d], dtype=xp.int64, device=array_api_compat.device(codes))[:, None] + 1
    cell = xp.permute_dims(xp.astype(codes, xp.int64) + first, (1, 0))
    return xp.reshape(xp.take(table, xp.reshape(cell, (-1,)), axis=0), (n, d, table.shape[1]))
