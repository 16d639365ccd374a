"""NumPy body of `arraylearn.backend.ops.gradients`: chunks that stay in the cache, one look-up for both."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from arraylearn.backend.ops.gradients import GRADIENT_BITS, SCORE_BITS
from arraylearn.backend.ops.score_tables import CELL_BITS, LAST_SCORE, STEP_BITS, TABLE_END, sigmoid_units

Host = np.ndarray[Any, Any]

__all__ = ["log_loss_gradients"]

_CHUNK = 16_384
# Gradients wait for their scale with this much added, so that nothing is borrowed from the hessian above.
_BIAS = 1 << GRADIENT_BITS
_LOWER, _UPPER = (0, 1) if np.little_endian else (1, 0)


def log_loss_gradients(
    first: Host, second: Host, scores: Host, codes: Host, weights: Host | None
) -> tuple[Host, Host]:
    k, n = scores.shape
    packed = np.empty((k, n), dtype=np.int64)
    step = max(256, _CHUNK // k)
    chunks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    totals = np.zeros(k, dtype=np.int64)
    for rows in chunks:
        heavy = None if weights is None else weights[rows]
        if k == 1:
            totals += _two_classes(scores[0, rows], codes[rows], heavy, packed[:, rows])
        else:
            tables = (first, second)
            totals += _many_classes(tables, scores[:, rows], codes[rows], heavy, packed[:, rows])
    shifts = (totals[:, None] >> np.arange(GRADIENT_BITS, 62) > 0).sum(axis=1)
    for rows in chunks:
        for line, shift in zip(packed, shifts.tolist(), strict=True):
            _scale(line[rows], shift)
    return packed, shifts.astype(np.int64)


@cache
def _biased_units() -> Host:
    gradient, hessian = sigmoid_units()
    units: Host = (hessian << 32) + (gradient + _BIAS)
    return units


def _two_classes(scores: Host, codes: Host, weights: Host | None, packed: Host) -> Host:
    """Look gradient and hessian up together; return the sum of absolute gradients."""
    table, bits = _biased_units(), SCORE_BITS - CELL_BITS
    end = LAST_SCORE << SCORE_BITS
    nearest = np.maximum(scores, np.int32(-end))
    np.minimum(nearest, np.int32(end), out=nearest)
    nearest += np.int32(end + (1 << (bits - 1)))
    nearest >>= np.int32(bits)
    cell = codes * (table.shape[0] // 2)
    cell += nearest
    line = packed[0]
    np.take(table, cell, out=line, mode="clip")  # without a mode it would go through a buffer
    halves = line.view(np.int32).reshape(-1, 2)
    gradient = halves[:, _LOWER] - np.int32(_BIAS)
    if weights is not None:
        gradient, hessian = (
            np.rint(units.astype(np.float32) * weights).astype(np.int32)
            for units in (gradient, halves[:, _UPPER])
        )
        halves[:, _UPPER] = hessian
        np.add(gradient, np.int32(_BIAS), out=halves[:, _LOWER])
    return _sum_of_absolutes(gradient[None, :])


def _many_classes(
    tables: tuple[Host, Host], scores: Host, codes: Host, weights: Host | None, packed: Host
) -> Host:
    """Derive the softmax; return the sum of absolute gradients of each class."""
    p = _softmax(scores, *tables)
    hessian = 1 - p
    hessian *= p
    gradient = p
    gradient[codes, np.arange(codes.shape[0])] -= np.float32(1)
    halves = packed.view(np.int32).reshape(*packed.shape, 2)
    for x in (gradient, hessian):
        if weights is not None:
            x *= weights
        x *= np.float32(2.0**GRADIENT_BITS)
        np.rint(x, out=x)
    units = gradient.astype(np.int32)
    np.add(units, np.int32(_BIAS), out=halves[..., _LOWER])
    halves[..., _UPPER] = hessian
    return _sum_of_absolutes(units)


def _sum_of_absolutes(units: Host) -> Host:
    total: Host = np.abs(units, out=units).sum(axis=1, dtype=np.int64)
    return total


def _softmax(scores: Host, values: Host, slopes: Host) -> Host:
    end, bits = TABLE_END << SCORE_BITS, SCORE_BITS - STEP_BITS
    behind = scores - scores.max(axis=0)
    np.maximum(behind, np.int32(-end), out=behind)
    behind += np.int32(end)
    cell = (behind >> np.int32(bits)).astype(np.intp)
    behind &= np.int32((1 << bits) - 1)
    power: Host = slopes.take(cell)
    power *= behind.astype(np.float32)
    power += values.take(cell)
    total = (power * np.float32(2.0**24)).astype(np.int32).sum(axis=0, dtype=np.int64)
    power /= total.astype(np.float32) * np.float32(2.0**-24)
    np.minimum(power, np.float32(1), out=power)
    return power


def _scale(packed: Host, shift: int) -> None:
    """Divide both halves by 2**shift, rounded, and take the bias away."""
    if shift:
        half = 1 << (shift - 1)
        packed += (half << 32) + half
        packed &= ~(((1 << shift) - 1) << 32)  # what would fall from the hessian into the gradient
        packed >>= shift
    packed -= _BIAS >> shift
