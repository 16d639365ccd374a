"""Gradients of the log loss as packed integers, the same bits on every backend.

Gradient and hessian of a row are rounded to integers and packed into one int64 (hessian in the upper half),
so that one addition adds both and no sum depends on its order. Scores are integers too, in units of
``2**-SCORE_BITS``.
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Device, Namespace
from arraylearn.backend.namespace import Place, from_host
from arraylearn.boosting.score_tables import (
    CELL_BITS,
    LAST_SCORE,
    SCORE_BITS,
    STEP_BITS,
    TABLE_END,
    exponential_table,
    sigmoid_units,
)
from arraylearn.grow.formulas import GRADIENT_BITS

__all__ = [
    "SCORE_BITS",
    "GradientTables",
    "Gradients",
    "gradient_tables",
    "log_loss_gradients",
]


class GradientTables(NamedTuple):
    """What gradients are looked up in, on the device; the caller keeps it from round to round."""

    first: Array  # int64 gradients by score and class of two, or float32 exponentials
    second: Array  # int64 hessians, or float32 slopes


class Gradients(NamedTuple):
    """First and second derivatives of the loss, packed."""

    packed: Array  # (k, n) int64: hessian << 32 plus gradient
    shifts: Array  # (k,) int64: both are in units of 2 ** (shift - GRADIENT_BITS)


def gradient_tables(xp: Namespace, device: Device, n_outputs: int) -> GradientTables:
    """Bring the tables for `log_loss_gradients` with `n_outputs` lines of scores to a device."""
    place = Place(xp, device)
    tables = sigmoid_units() if n_outputs == 1 else exponential_table()
    return GradientTables(*(from_host(table, place) for table in tables))


def log_loss_gradients(
    xp: Namespace, tables: GradientTables, scores: Array, codes: Array, weights: Array | None
) -> Gradients:
    r"""Derive the log loss by the scores.

    .. math:: g_{ci} = w_i (p_{ci} - [y_i = c]), \quad h_{ci} = w_i p_{ci} (1 - p_{ci})

    Parameters
    ----------
    tables : GradientTables
        Of `gradient_tables`.
    scores : int32 array (k, n)
        In units of ``2**-SCORE_BITS``. One line: the log odds of class 1 of two; else one line per class.
    codes : int64 array (n,)
        Classes.
    weights : float32 array (n,), optional
        In [0, 1].

    Returns
    -------
    Gradients
        The same bits on every backend: the probabilities come from a table (right to 3e-5), sums of
        exponentials are sums of integers.
    """
    if scores.shape[0] == 1:
        cell = _nearest(xp, scores[0, :]) + codes * (tables.first.shape[0] // 2)
        units = [xp.take(table, cell, axis=0)[None, :] for table in tables]
        if weights is not None:
            units = [xp.astype(xp.round(xp.astype(x, xp.float32) * weights), xp.int64) for x in units]
    else:
        units = [
            xp.astype(xp.round((x if weights is None else x * weights) * 2.0**GRADIENT_BITS), xp.int64)
            for x in _softmax_derivatives(xp, tables, scores, codes)
        ]
    gradient, hessian = units
    # |g| is not less than h, row by row: one shift keeps both sums below 2**31
    powers = xp.arange(GRADIENT_BITS, 62, dtype=xp.int64, device=array_api_compat.device(scores))
    total = xp.sum(xp.abs(gradient), axis=1)
    shift = xp.sum(xp.astype((total[:, None] >> powers) > 0, xp.int64), axis=1)
    half = (xp.ones_like(shift) << shift) >> 1
    gradient, hessian = ((x + half[:, None]) >> shift[:, None] for x in (gradient, hessian))
    return Gradients((hessian << 32) + gradient, shift)


def _nearest(xp: Namespace, scores: Array) -> Array:
    """Return the entry of `sigmoid_units` next to each score, as int64."""
    bits = SCORE_BITS - CELL_BITS
    bounded = _bound(xp, scores, -LAST_SCORE << SCORE_BITS, LAST_SCORE << SCORE_BITS)
    return xp.astype((bounded + ((LAST_SCORE << SCORE_BITS) + (1 << (bits - 1)))) >> bits, xp.int64)


def _softmax_derivatives(
    xp: Namespace, tables: GradientTables, scores: Array, codes: Array
) -> tuple[Array, Array]:
    """Return gradients and hessians (k, n) as float32."""
    device = array_api_compat.device(scores)
    behind = scores - xp.max(scores, axis=0, keepdims=True)
    bounded = _bound(xp, behind, -TABLE_END << SCORE_BITS, 0) + (TABLE_END << SCORE_BITS)
    bits = SCORE_BITS - STEP_BITS
    cell = xp.reshape(xp.astype(bounded >> bits, xp.int64), (-1,))
    rest = xp.astype(bounded & ((1 << bits) - 1), xp.float32)
    value, slope = (xp.reshape(xp.take(table, cell, axis=0), scores.shape) for table in tables)
    power = value + slope * rest
    total = xp.sum(xp.astype(power * 2.0**24, xp.int64), axis=0, keepdims=True)
    p = power / (xp.astype(total, xp.float32) * 2.0**-24)
    p = xp.minimum(p, xp.ones_like(p))
    is_class = codes[None, :] == xp.arange(scores.shape[0], dtype=codes.dtype, device=device)[:, None]
    return p - xp.astype(is_class, xp.float32), p * (1.0 - p)


def _bound(xp: Namespace, scores: Array, low: int, high: int) -> Array:
    device = array_api_compat.device(scores)
    bounds = xp.asarray([low, high], dtype=scores.dtype, device=device)
    return xp.minimum(xp.maximum(scores, bounds[0]), bounds[1])
