"""Categories of too few rows to learn from: they count as missing, in training and later."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, from_host, to_host
from arraylearn.table.schema import MISSING_CODE, Schema, Table

__all__ = ["leave_out_rare"]

# A column of at most 8 categories keeps all of them, and so does one of up to 16 with 5 rows for each.
_ALWAYS_KEPT, _MOST_KEPT, _ROWS_EACH = 8, 16, 5
# By so many standard errors the classes must differ more between categories than they do by chance.
_ERRORS = 2.0
# Of what a category that is kept shows of its classes, the share that is no chance.
_LEAST_OWN = 1 / 4


def leave_out_rare(
    place: Place, table: Table, labels: Array, n_classes: int, weights: Array | None = None
) -> Table:
    r"""Leave out categories of columns that have many for their rows; rows of those count as missing.

    A column of more than 16 categories is looked at, and one of more than 8 with fewer than 5 rows for each.
    There a category is kept if it has at least :math:`s^2 / 3 \tau^2` rows,

    .. math:: s^2 = \frac{n}{n - 1} \Bigl(1 - \sum_c p_c^2\Bigr), \quad
        \tau^2 = \frac{\sum_j \sum_c n_{jc}^2 / n_j - n \sum_c p_c^2 - (k - 1) s^2}{n - \sum_j n_j^2 / n}

    for k categories with :math:`n_j` of n rows, :math:`n_{jc}` of class c, whose share of all rows is
    :math:`p_c`. :math:`s^2` is the variance of the class of a row and :math:`\tau^2` that of the class shares
    of the categories: with so many rows a quarter of what a category shows is its own, the rest chance
    (C. N. Morris, "Parametric empirical Bayes inference", 1983). Where the numerator of :math:`\tau^2` is
    within two standard errors of 0, as for names and identifiers, categories differ no more than by chance,
    and none is kept.

    Rows are counted, not weighed; those of weight 0 do not count. The host syncs if a column has more than 8
    categories.
    """
    schema = table.schema
    if max(schema.n_values, default=0) <= _ALWAYS_KEPT:
        return table
    codes, labels = to_host(table.codes), to_host(labels)
    is_row = np.ones(labels.shape, dtype=np.bool) if weights is None else to_host(weights) > 0
    columns = list(schema.columns)
    new_codes = np.tile(
        np.arange(MISSING_CODE, max(schema.n_values), dtype=np.int32), (len(schema.n_values), 1)
    )
    for new_code, column, j in zip(new_codes, codes, schema.nominal_idx, strict=True):
        domain = schema.columns[j].domain or ()
        if len(domain) <= _ALWAYS_KEPT:
            continue
        known = (column != MISSING_CODE) & is_row
        cells = column[known] * n_classes + labels[known]
        counts = histogram(HOST.xp, cells, len(domain) * n_classes).reshape(-1, n_classes)
        n_rows = np.sum(counts, axis=1)
        n_present = int(np.count_nonzero(n_rows))
        if n_present <= (_MOST_KEPT if np.sum(n_rows) >= _ROWS_EACH * n_present else _ALWAYS_KEPT):
            continue
        is_kept = n_rows >= _least_rows(np.astype(counts[n_rows > 0], np.float64))
        new_code[1 : len(domain) + 1] = np.where(
            is_kept, np.cumulative_sum(np.astype(is_kept, np.int32)) - 1, MISSING_CODE
        )
        kept = tuple(value for value, is_one in zip(domain, is_kept, strict=True) if is_one)
        columns[j] = replace(columns[j], domain=kept)
    new = np.take_along_axis(new_codes, codes - MISSING_CODE, axis=1)
    return table._replace(codes=from_host(new, place), schema=Schema(tuple(columns), schema.has_names))


def _least_rows(counts: HostArray) -> float:
    """Return how many rows a category must have, from the class counts (k, c) of all."""
    n_rows, of_class = np.sum(counts, axis=1), np.sum(counts, axis=0)
    n = float(np.sum(n_rows))
    share = of_class / n
    squares, further = float(np.sum(share**2)), counts.shape[0] - 1
    variance = (1.0 - squares) * n / (n - 1.0)
    between = float(np.sum(np.sum(counts**2, axis=1) / n_rows)) - n * squares
    error = math.sqrt(2.0 * further * (squares - 2.0 * float(np.sum(share**3)) + squares**2))
    excess = between - further * variance
    if excess <= _ERRORS * error:
        return math.inf
    spread = n - float(np.sum(n_rows**2)) / n
    return float(_LEAST_OWN / (1.0 - _LEAST_OWN) * variance * spread / excess)
