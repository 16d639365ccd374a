"""NumPy bodies for `arraylearn.backend.ops.gini_split`: a scan in float32, and exact scores where it matters.

Positions whose float32 score is within the rounding error of the block's best are scored again, exactly and
as the portable body does it; they decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.arrays.blocks import split_lists
from arraylearn.backend.namespace import HOST
from arraylearn.backend.native.numpy_gini_cells import search_cells
from arraylearn.backend.native.numpy_gini_exact import (
    FEW_CLASSES,
    Result,
    exact_scores,
    gains_of,
    is_between_equals,
    run_sizes,
    select_hits,
)
from arraylearn.backend.native.numpy_gini_scan import (
    Blocks,
    Hits,
    choose_hits,
    cut_into_pieces,
    scan_lists,
    worth_a_look,
)
from arraylearn.backend.native.numpy_many_classes import best_scores, find_positions
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["gini_split", "split_lists_at"]

# Positions times lists times classes of a piece: what one piece needs stays near the second-level cache.
_PIECE = 524_288
_WORTH_A_THREAD = 50_000
# Blocks of so many rows, of two and of more classes, are searched by cells where they hold this share of all.
_LARGE = 8_192, 512
_MOSTLY = 0.4


def gini_split(
    lists: Host,
    columns: Host,
    class_ends: Sequence[int],
    starts: Host,
    block_at: Host,
    counts: Host,
    least: int,
    is_tied: Sequence[bool],
    allowed: Host | None,
) -> Result:
    below = np.ascontiguousarray(np.cumsum(counts, axis=1)[:, :-1].T)
    blocks = Blocks(starts, counts.sum(axis=1), counts, below, list(class_ends[:-1]), least)
    is_large = blocks.sizes >= _LARGE[counts.shape[1] > 2]
    n_large = int(blocks.sizes.compress(is_large).sum())
    if allowed is None and counts.shape[1] > 1 and n_large > _MOSTLY * lists.shape[1]:
        return _search_by_size(lists, columns, class_ends, blocks, block_at, is_large, is_tied)
    search = _search_many if counts.shape[1] > FEW_CLASSES else _search_few
    result, is_lost = search(lists, columns, blocks, block_at, is_tied, allowed)
    given = lists, columns, class_ends, blocks, block_at
    if is_lost.any() and not all(is_tied):
        _look_again(result, is_lost, *given, allowed)
    if allowed is not None and (is_none := result[1] < 0).any():
        _look_again(result, is_none, *given, None)
    return result


def _search_by_size(
    lists: Host,
    columns: Host,
    class_ends: Sequence[int],
    blocks: Blocks,
    block_at: Host,
    is_large: Host,
    is_tied: Sequence[bool],
) -> Result:
    """Search large blocks by cells, and the small ones apart from them."""
    if is_large.all():
        return search_cells(lists, columns, blocks, block_at, is_tied)
    k, c = blocks.counts.shape
    result = np.zeros(k, np.int64), np.full(k, -1.0), blocks.starts.copy(), np.zeros((k, c), np.int64)
    for is_chosen in (is_large, ~is_large):
        part, numbers = _only(lists, blocks, block_at, is_chosen), is_chosen.nonzero()[0]
        if is_chosen is is_large:
            found = search_cells(part.lists, columns, part.blocks, part.block_at, is_tied)
        else:
            found = gini_split(
                part.lists,
                columns,
                class_ends,
                part.blocks.starts,
                part.block_at,
                part.blocks.counts,
                blocks.least,
                is_tied,
                None,
            )
        _write(result, found, numbers, blocks.starts.take(numbers) - part.blocks.starts)
    return result


def _search_few(
    lists: Host,
    columns: Host,
    blocks: Blocks,
    block_at: Host,
    is_tied: Sequence[bool],
    allowed: Host | None,
) -> tuple[Result, Host]:
    """Search the blocks; also tell (k,) whose best position lies between equal values."""
    d, m = lists.shape
    size = max(256, _PIECE // max(1, d * len(blocks.ends)))
    pieces = cut_into_pieces(blocks, block_at, min(65_528, size))
    n_threads = get_num_threads() if d * m >= _WORTH_A_THREAD else 1
    share = -(-d // n_threads)
    groups = [slice(j, min(d, j + share)) for j in range(0, d, share)]

    def scan(lines: slice) -> tuple[Host, list[Hits]]:
        return scan_lists(lists, columns, blocks, block_at, pieces, size, lines, is_tied, allowed)

    found = parallel_map(scan, groups)
    top = found[0][0] if len(found) == 1 else np.maximum.reduce([part for part, _ in found])
    hits = _join([hits for _, parts in found for hits in parts])
    if len(pieces) > 1 or len(found) > 1:  # the best was not known from the beginning
        hits = choose_hits(hits, hits.score >= worth_a_look(top, blocks, slice(None), size).take(hits.block))
    exact = exact_scores(blocks, hits)
    exact[is_between_equals(lists, columns, hits)] = -1.0
    return select_hits(blocks, hits, exact, top)


def _search_many(
    lists: Host,
    columns: Host,
    blocks: Blocks,
    block_at: Host,
    is_tied: Sequence[bool],
    allowed: Host | None,
) -> tuple[Result, Host]:
    """Search the blocks as `_search_few` does, by exact scores of all positions."""
    (k, c), m = blocks.counts.shape, lists.shape[1]
    ends = [*blocks.ends, columns.shape[1]]
    given = ends, blocks.starts, block_at, blocks.counts
    best = best_scores(lists, columns, *given, blocks.least, is_tied)
    nodes = np.arange(k)
    is_out = best < 0 if allowed is None else (best < 0) | ~allowed
    gains = np.where(is_out, np.float32(-np.inf), gains_of(blocks, nodes, best))
    line = gains.argmax(axis=0)
    score = np.where(is_out[line, nodes], -1.0, best[line, nodes])
    line_at = line.take(block_at)
    rows = lists.ravel().take(line_at * m + np.arange(m))
    values = columns.ravel().take(line_at * columns.shape[1] + rows)
    position = find_positions(rows, values, *given, score, blocks.least)
    is_lost = (position < 0) & (score >= 0)
    np.copyto(position, blocks.starts, where=position < 0)
    key = block_at * c + np.searchsorted(ends, rows, side="right")
    is_left = (np.arange(m) <= position.take(block_at)) & (score >= 0).take(block_at)
    left = np.bincount(key.compress(is_left), minlength=k * c).reshape(k, c)
    return (line, score, position, left), is_lost


def split_lists_at(
    lists: Host,
    line: Host,
    position: Host,
    starts: Host,
    block_at: Host,
    branches: Host,
    sizes: Sequence[int],
    n_rows: int,
) -> Host:
    m = lists.shape[1]
    sizes_of_sides = np.empty((starts.shape[0], 2), dtype=np.int64)
    block_sizes = run_sizes(starts, m)
    np.subtract(position + 1, starts, out=sizes_of_sides[:, 0])
    np.subtract(block_sizes, sizes_of_sides[:, 0], out=sizes_of_sides[:, 1])
    chosen = (line * m).repeat(block_sizes)
    chosen += np.arange(m)
    by_side = branches.astype(np.int8).ravel().repeat(sizes_of_sides.ravel())
    by_row = np.empty(n_rows, dtype=np.int8)
    by_row[lists.ravel().take(chosen)] = by_side
    result: Host = split_lists(HOST.xp, lists, by_row, sizes)
    return result


def _join(parts: list[Hits]) -> Hits:
    if len(parts) == 1:
        return parts[0]
    return Hits(*(np.concatenate(field, axis=-1) for field in zip(*parts, strict=True)))


class _Part(NamedTuple):
    """Some of the blocks, side by side."""

    lists: Host
    blocks: Blocks
    block_at: Host


def _only(lists: Host, blocks: Blocks, block_at: Host, is_chosen: Host) -> _Part:
    (chosen,) = is_chosen.nonzero()
    sizes = blocks.sizes.take(chosen)
    part = Blocks(
        np.cumsum(sizes) - sizes,
        sizes,
        blocks.counts.take(chosen, axis=0),
        blocks.below.take(chosen, axis=1),
        blocks.ends,
        blocks.least,
    )
    kept = lists.compress(is_chosen.take(block_at), axis=1)
    return _Part(kept, part, np.arange(chosen.shape[0]).repeat(sizes))


def _write(result: Result, found: Result, blocks: Host, shift: Host) -> None:
    """Write what was found in some of the blocks, whose positions were shifted."""
    line, score, position, left = found
    for old, new in zip(result, (line, score, position + shift, left), strict=True):
        old[blocks] = new


def _look_again(
    result: Result,
    is_again: Host,
    lists: Host,
    columns: Host,
    class_ends: Sequence[int],
    blocks: Blocks,
    block_at: Host,
    allowed: Host | None,
) -> None:
    """Search some blocks once more, with an eye on equal values, and write what is found."""
    (again,) = is_again.nonzero()
    part = _only(lists, blocks, block_at, is_again)
    found = gini_split(
        part.lists,
        columns,
        class_ends,
        part.blocks.starts,
        part.block_at,
        part.blocks.counts,
        blocks.least,
        [True] * lists.shape[0],
        None if allowed is None else allowed.take(again, axis=1),
    )
    _write(result, found, again, blocks.starts.take(again) - part.blocks.starts)
