"""Gradients of the log loss in compiled loops: rows in chunks that stay in the first-level cache."""

from __future__ import annotations

from functools import cache

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.cpu.jit import compiled, compiled_part
from arraylearn.backend.threads import even_portions, parallel_map
from arraylearn.boosting.log_loss import (
    CELL_BITS,
    LAST_SCORE,
    SCORE_BITS,
    STEP_BITS,
    TABLE_END,
    sigmoid_units,
)
from arraylearn.grow.formulas import GRADIENT_BITS

__all__ = ["log_loss_gradients"]

# Gradients that a thread must have, or it costs more than it brings: to be derived, and to be scaled.
_LEAST_GRADIENTS = 100_000
_LEAST_SCALED = 400_000
_CHUNK = 256
# Gradients wait for their scale with this much added, so that nothing is borrowed from the hessian above.
_ONE = 1 << GRADIENT_BITS
_LOWER_HALF = (1 << 32) - 1


def log_loss_gradients(
    first: HostArray, second: HostArray, scores: HostArray, codes: HostArray, weights: HostArray | None
) -> tuple[HostArray, HostArray]:
    """Return the fields of `Gradients`: see `arraylearn.boosting.log_loss.log_loss_gradients`."""
    k, n = scores.shape
    packed = np.empty((k, n), dtype=np.int64)
    heavy = np.empty(0, dtype=np.float32) if weights is None else np.ascontiguousarray(weights)
    portions = even_portions(n, _LEAST_GRADIENTS // k)
    totals = np.zeros((len(portions), k), dtype=np.int64)

    def derive(i: int) -> None:
        if k == 1:
            _two_classes(_class_zero(), scores[0], codes, heavy, *portions[i], packed[0], totals[i])
        else:
            _softmax((first, second), scores, codes, heavy, *portions[i], packed, totals[i])

    parallel_map(derive, range(len(portions)))
    total = totals.sum(axis=0)
    shifts = (total[:, None] >> np.arange(GRADIENT_BITS, 62) > 0).sum(axis=1)
    parallel_map(lambda rows: _scale(packed, shifts, *rows), even_portions(n, _LEAST_SCALED // k))
    return packed, shifts


@cache
def _class_zero() -> HostArray:
    """Return hessian and waiting gradient by score; class 1 has one less of the latter."""
    gradient, hessian = sigmoid_units()
    half = gradient.shape[0] // 2
    units: HostArray = (hessian[:half] << 32) + (gradient[:half] + _ONE)
    return units


@compiled
def _two_classes(
    units: HostArray,
    scores: HostArray,
    codes: HostArray,
    weights: HostArray,
    first: int,
    last: int,
    packed: HostArray,
    total: HostArray,
) -> None:
    """Look gradient and hessian up together; add to the sum of absolute gradients."""
    end, bits = LAST_SCORE << SCORE_BITS, SCORE_BITS - CELL_BITS
    middle = end + (1 << (bits - 1))
    absolute = np.int64(0)
    for row in range(first, last):
        score = min(max(np.int64(scores[row]), np.int64(-end)), np.int64(end))
        unit = units[np.uint64((score + middle) >> bits)] - (codes[row] << GRADIENT_BITS)
        if weights.shape[0]:
            hessian = np.rint(np.float32(unit >> 32) * weights[row])
            gradient = np.rint(np.float32((unit & _LOWER_HALF) - _ONE) * weights[row])
            unit = (np.int64(hessian) << 32) + (np.int64(gradient) + _ONE)
        packed[row] = unit
        absolute += abs((unit & _LOWER_HALF) - _ONE)
    total[0] += absolute


@compiled
def _softmax(
    exponentials: tuple[HostArray, HostArray],
    scores: HostArray,
    codes: HostArray,
    weights: HostArray,
    first: int,
    last: int,
    packed: HostArray,
    totals: HostArray,
) -> None:
    """Derive the softmax; add to the sums of absolute gradients of the classes."""
    k, (values, slopes) = scores.shape[0], exponentials
    highest, sums = np.empty(_CHUNK, dtype=np.int32), np.empty(_CHUNK, dtype=np.int64)
    power = np.empty((k, _CHUNK), dtype=np.float32)
    scale = np.float32(2.0**GRADIENT_BITS)
    one, nothing = np.float32(1), np.float32(0)
    for start in range(first, last, _CHUNK):
        m = min(_CHUNK, last - start)
        _exponentials(values, slopes, scores, start, m, highest, sums, power)
        for c in range(k):
            absolute = np.int64(0)
            for i in range(m):
                p = min(power[c, i] / (np.float32(sums[i]) * np.float32(2.0**-24)), one)
                gradient = p - (one if codes[start + i] == c else nothing)
                hessian = p * (one - p)
                if weights.shape[0]:
                    gradient *= weights[start + i]
                    hessian *= weights[start + i]
                unit = np.int64(np.rint(gradient * scale))
                packed[c, start + i] = (np.int64(np.rint(hessian * scale)) << 32) + (unit + _ONE)
                absolute += abs(unit)
            totals[c] += absolute


@compiled_part
def _exponentials(
    values: HostArray,
    slopes: HostArray,
    scores: HostArray,
    start: int,
    m: int,
    highest: HostArray,
    sums: HostArray,
    power: HostArray,
) -> None:
    """Write the exponentials of some rows' scores, against the highest of each row, and their sums."""
    end, bits = TABLE_END << SCORE_BITS, SCORE_BITS - STEP_BITS
    for i in range(m):
        highest[i], sums[i] = scores[0, start + i], 0
    for c in range(1, scores.shape[0]):
        for i in range(m):
            highest[i] = max(highest[i], scores[c, start + i])
    for c in range(scores.shape[0]):
        for i in range(m):
            behind = np.int32(scores[c, start + i] - highest[i])
            bounded = np.uint32(min(max(behind, np.int32(-end)), np.int32(0)) + np.int32(end))
            cell = bounded >> np.uint32(bits)
            rest = np.float32(bounded & np.uint32((1 << bits) - 1))
            power[c, i] = values[cell] + slopes[cell] * rest
            sums[i] += np.int64(power[c, i] * np.float32(2.0**24))


@compiled
def _scale(packed: HostArray, shifts: HostArray, first: int, last: int) -> None:
    """Divide both halves by 2**shift, rounded, and pack them for good."""
    for c in range(packed.shape[0]):
        shift = shifts[c]
        half = (np.int64(1) << shift) >> 1
        for row in range(first, last):
            hessian = ((packed[c, row] >> 32) + half) >> shift
            gradient = ((packed[c, row] & _LOWER_HALF) - _ONE + half) >> shift
            packed[c, row] = (hessian << 32) + gradient
