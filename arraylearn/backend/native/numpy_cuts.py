"""NumPy bodies for `arraylearn.backend.ops.cuts`: 32-bit keys and counts in pieces that stay in the cache.

Nodes of many rows are counted bin by bin, the others sorted. Sums over sorted rows run over several classes
at once, in fields of 16 bits; fields that overflow between nodes do no harm, since only differences count.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from arraylearn.backend.namespace import HOST
from arraylearn.backend.ops.cuts import NO_GAIN, CutRules, Draws, cut_scores, draw_cuts, group_bits
from arraylearn.backend.threads import parallel_map

Host = np.ndarray[Any, Any]
Found = tuple[Host, Host, Host, Host, Host]

__all__ = ["best_cuts", "divide_rows"]

# Items (rows times columns) of one piece.
_PIECE = 262_144
# Below so many items a thread costs more than it brings.
_WORTH_A_THREAD = 4 * _PIECE
# A kind beside the logarithms of sizes: nodes that are counted by single bins.
_ALL_BINS = 64
_FIELD_BITS = 16
_FIELD = 0xFFFF
# The squares of weights up to here fit 32 bits, and they themselves a field.
_HEAVIEST = 46_340


class _Workspace(threading.local):
    """Memory that is used again: fresh pages would cost more than the arithmetic. One set per thread."""

    def __init__(self) -> None:
        self._blocks: dict[str, Host] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: Any) -> Host:
        """Return an array to be written before it is read, in the memory of that name."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        block = self._blocks.get(name)
        if block is None or block.nbytes < n_bytes:
            block = self._blocks[name] = np.empty(n_bytes, dtype=np.uint8)
        array: Host = block[:n_bytes].view(dtype).reshape(shape)
        return array


_workspace = _Workspace()
_standard = HOST.xp


def _accumulate(values: Host) -> Host:
    """Return the running sums of lines, at a stride of two.

    Into neighbouring cells each addition would wait for the one before to be written: five times slower.
    """
    spaced = _workspace.get("wide", (*values.shape, 2), values.dtype)[..., 0]
    return np.add.accumulate(values, axis=-1, dtype=values.dtype, out=spaced)


def best_cuts(
    bins: Host,
    entries: Host,
    sizes: Sequence[int],
    features: Host,
    counts: Host,
    rules: CutRules,
    draws: Draws | None,
) -> Found:
    (k, f), n_classes = features.shape, counts.shape[1]
    size = np.asarray(sizes, dtype=np.int64)
    found = (
        np.empty(k, dtype=np.float32),
        np.empty(k, dtype=np.int64),
        np.empty(k, dtype=np.int64),
        np.empty(k, dtype=np.int64),
        np.empty((k, n_classes), dtype=np.int64),
    )
    key_bits = 32 - rules.n_bins.bit_length() - rules.payload_bits
    is_counted = (size >= rules.many) | (counts.sum(axis=1) > _HEAVIEST) | (key_bits < 0)
    is_counted &= draws is None
    # nodes with as many groups of bins are counted together
    kind = np.where(size < rules.many, _ALL_BINS, np.maximum(np.log2(size), 1).astype(np.int64))
    kind = np.where(is_counted, kind, 0)
    # classes are looked at one by one: fewer rows at a time if there are many
    limit = max(1, _PIECE // (f * max(1, n_classes // 8)))
    pieces = []
    for each in np.unique(kind).tolist():
        is_kind = kind == each
        nodes = np.flatnonzero(is_kind)
        part = entries if nodes.shape[0] == k else entries.compress(is_kind.repeat(size))
        width = 1 << group_bits(int(size[nodes[0]]), rules) if each else 0
        most = k if each or draws is not None else 1 << key_bits
        pieces += [(nodes[few], part[rows], width) for few, rows in _pieces(size[nodes], limit, most)]

    def run(piece: tuple[Host, Host, int]) -> None:
        nodes, part, width = piece
        arguments = (bins, part, size[nodes], features[nodes], counts[nodes], rules)
        if draws is not None:
            results = _cut_by_draws(*arguments, draws._replace(numbers=draws.numbers[nodes]))
        else:
            results = _cut_by_counts(*arguments, width, limit) if width else _cut_by_sort(*arguments)
        for whole, result in zip(found, results, strict=True):
            whole[nodes] = result

    if entries.shape[0] * f < _WORTH_A_THREAD:
        for piece in pieces:
            run(piece)
    else:
        parallel_map(run, pieces)
    return found


def _pieces(size: Host, limit: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield runs of nodes with up to `limit` rows together, no more than `most` nodes, and their rows."""
    k, first = size.shape[0], 0
    bounds = np.zeros(k + 1, dtype=np.int64)
    np.cumsum(size, out=bounds[1:])
    while first < k:
        last = int(np.searchsorted(bounds, bounds[first] + limit, side="right")) - 1
        last = min(max(last, first + 1), first + most, k)
        yield slice(first, last), slice(int(bounds[first]), int(bounds[last]))
        first = last


def _cut_by_sort(
    bins: Host, entries: Host, size: Host, features: Host, counts: Host, rules: CutRules
) -> Found:
    """Find the cuts of a few nodes from sorted keys node | bin | payload of 32 bits."""
    n_classes = counts.shape[1]
    shape = (features.shape[1], entries.shape[0])
    starts = np.cumsum(size) - size
    get = _workspace.get
    key = _sorted_keys(bins, entries, size, features, rules)
    lefts = _class_weights(key, starts, counts, rules)
    n_left, n_right = get("wide", (2, *shape), np.int32)
    np.add(lefts[0], lefts[1] if n_classes > 1 else 0, out=n_left)
    for left in lefts[2:]:
        n_left += left
    total = counts.sum(axis=1).astype(np.int32).repeat(size)
    np.subtract(total, n_left, out=n_right)
    is_allowed = get("bins", shape, np.bool_)
    key >>= np.uint32(rules.payload_bits)
    np.not_equal(key[:, 1:], key[:, :-1], out=is_allowed[:, :-1])
    is_allowed[:, -1] = False
    if rules.least > 1:
        is_allowed &= n_left >= rules.least
        is_allowed &= n_right >= rules.least
    last = starts[1:] - 1
    is_allowed[:, last] = False
    n_right[:, last] = 1  # the right side of a node's last row is empty: no division by 0
    n_right[:, -1] = 1
    scores = _score_positions(lefts, n_left, n_right, total, counts, size)
    scores *= is_allowed
    score, slot, at, line = _first_best(scores, starts, size)
    bin_mask = np.uint32((1 << rules.n_bins.bit_length()) - 1)
    flat = key.reshape(-1)
    low = (flat.take(at) & bin_mask).astype(np.int64)
    low += flat.take(np.minimum(at + 1, flat.shape[0] - 1)) & bin_mask
    left = np.stack([part.reshape(-1).take(at) for part in lefts], axis=1)
    return score, slot, low >> 1, line + 1 - starts, left


def _score_positions(
    lefts: list[Host], n_left: Host, n_right: Host, total: Host, counts: Host, size: Host
) -> Host:
    """Score a cut after each position; what it is given is used up but for `lefts`."""
    shape, n_classes = n_left.shape, len(lefts)
    get = _workspace.get
    scores, part = get("scores", shape, np.float32), get("part", shape, np.int32)
    squares, rounded = get("squares", shape, np.int32), part.view(np.float32)
    if n_classes <= 2:
        np.multiply(lefts[-1], total, out=squares)
        np.multiply(n_left, counts[:, -1].astype(np.int32).repeat(size), out=part)
        squares -= part
        np.copyto(scores, squares, casting="same_kind")
        scores *= scores
        n_right *= n_left
        np.copyto(rounded, n_right, casting="same_kind")
        scores /= rounded
        scores += np.float32(NO_GAIN)
        return scores
    squares[...] = 0
    # sum of r^2 = sum of l^2 - 2 l L + L^2; what overflows on the way comes back
    other = get("other", shape, np.int32)
    other[...] = (counts * counts).sum(axis=1).astype(np.int32).repeat(size)
    for c, left in enumerate(lefts):
        np.multiply(left, left, out=part)
        squares += part
        np.multiply(left, (-2 * counts[:, c]).astype(np.int32).repeat(size), out=part)
        other += part
    other += squares
    np.copyto(scores, squares, casting="same_kind")
    np.copyto(rounded, n_left, casting="same_kind")
    scores /= rounded
    np.copyto(squares.view(np.float32), other, casting="same_kind")
    np.copyto(rounded, n_right, casting="same_kind")
    rounded = np.divide(squares.view(np.float32), rounded, out=rounded)
    scores += rounded
    return scores


def _sorted_keys(bins: Host, entries: Host, size: Host, features: Host, rules: CutRules) -> Host:
    """Return the keys (f, m) of the rows, each line in order."""
    shape = (features.shape[1], entries.shape[0])
    low, bin_bits = rules.payload_bits, rules.n_bins.bit_length()
    base = entries >> low
    base *= bins.shape[1]
    cell = _workspace.get("wide", shape, np.int64)
    np.add(features.T.repeat(size, axis=1), base, out=cell)
    found = _workspace.get("bins", shape, bins.dtype)
    bins.reshape(-1).take(cell, out=found, mode="wrap")
    key = _workspace.get("key", shape, np.uint32)
    np.copyto(key, found, casting="unsafe")
    key <<= np.uint32(low)
    head = np.arange(size.shape[0], dtype=np.uint32)
    head <<= np.uint32(low + bin_bits)
    head = head.repeat(size)
    np.bitwise_and(entries, (1 << low) - 1, out=base)
    head |= base.astype(np.uint32)
    key |= head
    key.sort(axis=1)
    return key


def _class_weights(key: Host, starts: Host, counts: Host, rules: CutRules) -> list[Host]:
    """Return the weight of each class up to each position of the lines, from the start of its node on."""
    n_classes, shape = counts.shape[1], key.shape
    get = _workspace.get
    code = np.bitwise_and(key, np.uint32((1 << rules.class_bits) - 1), out=get("code", shape, np.uint32))
    weight = np.right_shift(key, np.uint32(rules.class_bits), out=get("weight", shape, np.uint32))
    weight &= np.uint32((1 << (rules.payload_bits - rules.class_bits)) - 1)
    code *= np.uint32(_FIELD_BITS)
    lefts = []
    if n_classes <= 2:
        weight <<= code
        sums = _sum_fields(weight, starts, counts)
        np.bitwise_and(sums, np.uint32(_FIELD), out=code)
        np.right_shift(sums, np.uint32(_FIELD_BITS), out=weight)
        return [code.view(np.int32), weight.view(np.int32)]
    for first in range(0, n_classes, 4):
        fields = get("fields", shape, np.uint64)
        if n_classes <= 4:
            np.left_shift(weight, code, out=fields, dtype=np.uint64)
        else:  # shifts by 64 bits or more would mean something else
            shift = code - np.uint32(first * _FIELD_BITS)
            np.left_shift(weight, shift & np.uint32(63), out=fields, dtype=np.uint64)
            fields *= shift < np.uint32(64)
        few = counts[:, first : first + 4]
        sums = _sum_fields(fields, starts, few)
        for i in range(few.shape[1]):
            left = get(f"left {first + i}", shape, np.uint32)
            np.copyto(left, sums >> np.uint64(i * _FIELD_BITS) if i else sums, casting="unsafe")
            left &= np.uint32(_FIELD)
            lefts.append(left.view(np.int32))
    return lefts


def _sum_fields(fields: Host, starts: Host, counts: Host) -> Host:
    """Return the running sums of fields (f, m), which begin again at each node; `fields` is used up."""
    kind = fields.dtype.type
    whole = np.zeros(starts.shape[0], dtype=kind)
    for i in range(counts.shape[1]):
        whole += counts[:, i].astype(kind) << kind(i * _FIELD_BITS)
    fields[:, starts[1:]] -= whole[:-1]
    return _accumulate(fields)


def _first_best(scores: Host, starts: Host, size: Host) -> tuple[Host, Host, Host, Host]:
    """Return the best score of each node, the first line that has it, and its place: in all lines, in one."""
    k, m = starts.shape[0], scores.shape[1]
    ordered = scores.view(np.int32)  # in the same order, since none is negative, and faster to compare
    best = np.maximum.reduceat(ordered, starts, axis=1)
    slot = best.argmax(axis=0)
    node = np.arange(k)
    best = best[slot, node]
    at = (slot * m).repeat(size)
    at += np.arange(m)
    hits = np.flatnonzero(ordered.reshape(-1).take(at) == best.repeat(size))
    owner = node.repeat(size).take(hits)
    is_first = np.ones(owner.shape[0], dtype=np.bool_)
    np.not_equal(owner[1:], owner[:-1], out=is_first[1:])
    line = hits.compress(is_first)
    return best.view(np.float32), slot, at.take(line), line


def _cut_by_counts(
    bins: Host,
    entries: Host,
    size: Host,
    features: Host,
    counts: Host,
    rules: CutRules,
    width: int,
    limit: int,
) -> Found:
    """Find the cuts of a few nodes from the weight of each class in up to `width` groups of bins."""
    (k, f), m, n_classes = features.shape, entries.shape[0], counts.shape[1]
    bounds = np.concatenate(([0], np.cumsum(size)))
    parts = [slice(start, min(start + limit, m)) for start in range(0, m, limit)]
    inside = [np.diff(bounds.clip(part.start, part.stop)) for part in parts]  # rows of each node in each part
    found = _workspace.get("counted bins", (f, m), bins.dtype)
    for part, sizes in zip(parts, inside, strict=True):
        base = entries[part] >> rules.payload_bits
        base *= bins.shape[1]
        found[:, part] = bins.reshape(-1).take(features.T.repeat(sizes, axis=1) + base, mode="wrap")
    low = np.minimum.reduceat(found, bounds[:-1], axis=1)
    spread = np.maximum.reduceat(found, bounds[:-1], axis=1) - low
    shift = np.zeros_like(low)
    for bit in range(width.bit_length() - 1, rules.n_bins.bit_length()):
        shift += (spread >> bit) > 0
    sums = np.zeros((f, n_classes * k * width))
    for part, sizes in zip(parts, inside, strict=True):
        payload = entries[part] & ((1 << rules.payload_bits) - 1)
        weight = (payload >> rules.class_bits).astype(np.float64)
        payload &= (1 << rules.class_bits) - 1
        payload *= k * width
        payload += np.arange(0, k * width, width).repeat(sizes)
        for j in range(f):
            group = found[j, part] - low[j].repeat(sizes)
            group >>= shift[j].repeat(sizes)
            sums[j] += np.bincount(payload + group, weight, minlength=sums.shape[1])
    left = _accumulate(sums.reshape(f, n_classes, k, width)).astype(np.int64)
    scores = cut_scores(_standard, left.swapaxes(0, 1), counts.T[:, None, :, None])
    n_left = left.sum(axis=1)
    if rules.least > 1:
        scores *= (n_left >= rules.least) & (counts.sum(axis=1)[:, None] - n_left >= rules.least)
    at = scores.argmax(axis=2)
    node = np.arange(k)
    best = np.take_along_axis(scores, at[:, :, None], axis=2)[:, :, 0]
    slot = best.argmax(axis=0)
    score, here = best[slot, node], at[slot, node]
    weights = n_left[slot, node]
    after = (weights > weights[node, here][:, None]).argmax(axis=1)
    cut = low[slot, node] + (((here + after) // 2 + 1) << shift[slot, node].astype(np.int64)) - 1
    winner = (slot * m).repeat(size)
    winner += np.arange(m)
    is_left = found.reshape(-1).take(winner) <= cut.astype(found.dtype).repeat(size)
    rows_left = np.add.reduceat(is_left, bounds[:-1], dtype=np.int64)
    return score, slot, cut, rows_left, left[slot, :, node, here]


def _cut_by_draws(
    bins: Host, entries: Host, size: Host, features: Host, counts: Host, rules: CutRules, draws: Draws
) -> Found:
    """Find the best of the drawn cuts of a few nodes, one per column."""
    (k, f), n_classes = features.shape, counts.shape[1]
    starts = np.cumsum(size) - size
    base = entries >> rules.payload_bits
    base *= bins.shape[1]
    found = bins.reshape(-1).take(features.T.repeat(size, axis=1) + base, mode="wrap")
    low = np.minimum.reduceat(found, starts, axis=1).astype(np.int64)
    high = np.maximum.reduceat(found, starts, axis=1).astype(np.int64)
    cuts = draw_cuts(_standard, features, low, high, draws, rules.n_bins)
    is_left = found <= cuts.astype(found.dtype).repeat(size, axis=1)
    payload = entries & ((1 << rules.payload_bits) - 1)
    weight = (payload >> rules.class_bits).astype(np.float64)
    cell = payload & ((1 << rules.class_bits) - 1)
    cell += np.arange(0, k * n_classes, n_classes).repeat(size)
    left = np.empty((f, k, n_classes), dtype=np.int64)
    for j in range(f):
        sums = np.bincount(cell.compress(is_left[j]), weight.compress(is_left[j]), minlength=k * n_classes)
        left[j] = sums.reshape(k, n_classes)
    n_left = left.sum(axis=2)
    scores = cut_scores(_standard, np.moveaxis(left, 2, 0), counts.T[:, None, :])
    scores *= (low < high) & (n_left >= rules.least) & (counts.sum(axis=1) - n_left >= rules.least)
    slot = scores.argmax(axis=0)
    node = np.arange(k)
    rows_left = np.add.reduceat(is_left, starts, axis=1, dtype=np.int64)
    return scores[slot, node], slot, cuts[slot, node], rows_left[slot, node], left[slot, node]


def divide_rows(
    bins: Host,
    entries: Host,
    sizes: Sequence[int],
    feature: Host,
    cut: Host,
    is_kept: Host,
    n_kept: tuple[int, int],
    payload_bits: int,
) -> Host:
    size = np.asarray(sizes, dtype=np.int64)
    limit = cut.astype(bins.dtype)
    flat = bins.reshape(-1)

    def run(piece: tuple[slice, slice]) -> tuple[Host, Host]:
        nodes, part = piece[0], entries[piece[1]]
        inside = size[nodes]
        cell = part >> payload_bits
        cell *= bins.shape[1]
        cell += feature[nodes].repeat(inside)
        right = flat.take(cell) > limit[nodes].repeat(inside)
        left = ~right
        left &= is_kept[0, nodes].repeat(inside)
        right &= is_kept[1, nodes].repeat(inside)
        return part.compress(left), part.compress(right)

    sides = parallel_map(run, _pieces(size, _PIECE, size.shape[0]))
    result: Host = np.concatenate([side[0] for side in sides] + [side[1] for side in sides])
    return result
