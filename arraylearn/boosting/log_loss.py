"""The log loss of integer scores: the scores to start from, the mean loss, and its gradients.

Scores are integers in units of ``2**-SCORE_BITS``. Gradient and hessian of a row are looked up in tables,
rounded to integers and packed into one int64 (hessian in the upper half), so that one addition adds both and
no sum depends on its order: the same bits on every backend.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, Device, HostArray, Namespace
from arraylearn.backend.arrays.linear import logsumexp
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host
from arraylearn.grow.formulas import GRADIENT_BITS

__all__ = [
    "CELL_BITS",
    "LAST_SCORE",
    "SCORE_BITS",
    "STEP_BITS",
    "TABLE_END",
    "ExponentialTable",
    "GradientTables",
    "Gradients",
    "exponential_table",
    "gradient_tables",
    "log_loss_gradients",
    "mean_log_loss",
    "sigmoid_units",
    "start_scores",
]


# Scores are integers in units of 2**-SCORE_BITS.
SCORE_BITS = 20
# The exponential from -24 to 0 at steps of 1/64, interpolated linearly: relative error below 3e-5.
TABLE_END = 24
STEP_BITS = 6
# The sigmoid from -20 to 20 at steps of 2**-12, the nearest entry is taken: error below 3e-5.
LAST_SCORE = 20
CELL_BITS = 12


class ExponentialTable(NamedTuple):
    """The exponential of scores up to 0."""

    values: HostArray  # float32 at each step from -TABLE_END on
    slopes: HostArray  # float32 per unit of the score, after each step


@cache
def exponential_table() -> ExponentialTable:
    """Make the table of the exponential."""
    steps = 1 << STEP_BITS
    values = [math.exp(i / steps) for i in range(-TABLE_END * steps, 1)]
    per_unit = 2.0 ** (STEP_BITS - SCORE_BITS)
    slopes = [(after - before) * per_unit for before, after in pairwise(values)]
    return ExponentialTable(
        np.asarray(values, dtype=np.float32), np.asarray([*slopes, 0.0], dtype=np.float32)
    )


@cache
def sigmoid_units() -> HostArray:
    """Return int64 (2, 2 m): gradient and hessian of the m scores for class 0, then for class 1.

    In units of ``2**-GRADIENT_BITS``; entry i belongs to the score ``i * 2**-CELL_BITS - LAST_SCORE``.
    """
    end = LAST_SCORE << CELL_BITS
    p = 1.0 / (1.0 + np.exp(-np.arange(-end, end + 1) * 2.0**-CELL_BITS))
    one = 1 << GRADIENT_BITS
    gradient = np.rint(p * one).astype(np.int64)
    hessian = np.rint(p * (1.0 - p) * one).astype(np.int64)
    return np.stack((np.concatenate((gradient, gradient - one)), np.concatenate((hessian, hessian))))


class GradientTables(NamedTuple):
    """The tables in which gradients are looked up, on the device; made once for all rounds."""

    first: Array  # int64 gradients by score and class of two, or float32 exponentials
    second: Array  # int64 hessians, or float32 slopes


class Gradients(NamedTuple):
    """First and second derivatives of the loss, packed."""

    packed: Array  # (k, n) int64: hessian << 32 plus gradient
    shifts: Array  # (k,) int64: both are in units of 2 ** (shift - GRADIENT_BITS)


def gradient_tables(xp: Namespace, device: Device, n_outputs: int) -> GradientTables:
    """Bring the tables for `log_loss_gradients` with `n_outputs` rows of scores to a device."""
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
        In units of ``2**-SCORE_BITS``. k = 1: the log odds of class 1 of two; otherwise k classes.
    codes : int64 array (n,)
        Classes.
    weights : float32 array (n,), optional
        In [0, 1].

    Returns
    -------
    Gradients
        The same bits on every backend: the probabilities come from a table (error below 3e-5), and sums of
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
    # |g| >= h in every row, so that one shift for both keeps both sums below 2**31
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


def start_scores(codes: HostArray, weights: HostArray | None, n_classes: int) -> list[int]:
    """Return the log odds of two classes, or the log shares of more, as scores.

    Weights are summed on the host, in the order of the rows, so that all backends start at the same scores.
    """
    shares: list[float] = np.bincount(codes, weights, n_classes).tolist()
    # a class without weight gets the least share
    logs = [math.log(max(share, 1e-9 * sum(shares))) for share in shares]
    starts = [logs[1] - logs[0]] if n_classes == 2 else [x - sum(logs) / n_classes for x in logs]
    return [round(x * (1 << SCORE_BITS)) for x in starts]


def mean_log_loss(place: Place, scores: Array, codes: Array, weights: Array | None) -> float:
    r"""Return the weighted mean of :math:`-\log p_{y}`; the host syncs."""
    xp, dtype = place.xp, accumulator_dtype(place)
    odds = xp.astype(scores, dtype) * 2.0**-SCORE_BITS
    if scores.shape[0] == 1:
        margin = xp.where(codes == 1, odds[0, :], -odds[0, :])
        small = xp.where(margin > 0, -margin, margin)
        losses = xp.log1p(xp.exp(small)) + xp.where(margin > 0, 0.0, -margin)
    else:
        chosen = xp.take_along_axis(odds, codes[None, :], axis=0)[0, :]
        losses = logsumexp(xp, odds, axis=0) - chosen
    if weights is None:
        return float(xp.mean(losses))
    weights = xp.astype(weights, dtype)
    return float(xp.sum(losses * weights) / xp.sum(weights))
