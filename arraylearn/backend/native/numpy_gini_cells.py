"""The best Gini split of large blocks, for NumPy: cells of positions are counted and bounded, few searched.

Sixteen neighbouring positions are a cell. The class counts at the edges of the cells cost little: sixteen
comparisons become two bytes, whose ones are counted. With ``q_c = l_c - m p_c`` the score
``sum_c q_c^2 / (m (M - m))`` inside a cell of w positions is bounded by ``|q_c| <= max(|q_c| at both edges)
+ w p_c (1 - p_c)``. Only the cells whose bound reaches the best edge of the block are searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.native.numpy_gini_exact import (
    FEW_CLASSES,
    Result,
    exact_scores,
    is_between_equals,
    select_hits,
)
from arraylearn.backend.native.numpy_gini_scan import Blocks, Hits, choose_hits
from arraylearn.backend.threads import get_num_threads, parallel_map

Host = np.ndarray[Any, Any]

__all__ = ["search_cells"]

_WIDTH = 16
# Flags that are made and counted together.
_TOGETHER = 1 << 18
# A bound this near to the best edge is searched: columns are compared in float32.
_SLACK = 1.0 - 1e-6
_WORTH_A_THREAD = 50_000


class _Edges(NamedTuple):
    """The lower edge of each cell: arrays (e,)."""

    block: Host
    n_left: Host  # rows of the block before it
    inverse: Host  # 1 / (m (M - m)); 0 where no split is allowed
    divisor: Host  # (e - 1,) least m (M - m) of the cell; 0 where it is not inside one block
    share: Host  # (c, k) of each class in each block
    before: Host  # (c - 1, k) rows of class c or less in the blocks before


def search_cells(
    lists: Host, columns: Host, blocks: Blocks, block_at: Host, is_tied: Sequence[bool]
) -> Result:
    """Search blocks of many cells each; `arraylearn.backend.ops.gini_split` says for what."""
    d, m = lists.shape
    edges = _edges(blocks, block_at)
    n_edges = edges.block.shape[0]
    below = np.zeros((len(blocks.ends), d, n_edges), dtype=np.int32)
    at_edge, reach = np.empty((d, n_edges)), np.empty((d, n_edges - 1))

    def measure(lines: slice) -> None:
        _count_cells(lists[lines], blocks.ends, below[:, lines])
        _bound(below[:, lines], blocks, edges, at_edge[lines], reach[lines])

    n_threads = get_num_threads() if d * m >= _WORTH_A_THREAD else 1
    share = max(1, min(-(-d // n_threads), _TOGETHER // m))
    parallel_map(measure, [slice(j, min(d, j + share)) for j in range(0, d, share)])
    best = _best_edges(lists, columns, edges, at_edge, is_tied)
    hits = _positions(lists, blocks, below, *_surviving(blocks, edges, below, reach, best))
    exact = exact_scores(blocks, hits)
    keep = exact >= _as_scores(blocks, best).take(hits.block)
    hits, exact = choose_hits(hits, keep), exact.compress(keep)
    exact[is_between_equals(lists, columns, hits)] = -1.0
    nothing_lost = np.full(blocks.starts.shape[0], -1.0)
    return select_hits(blocks, hits, exact, nothing_lost)[0]


def _edges(blocks: Blocks, block_at: Host) -> _Edges:
    block = block_at[::_WIDTH]
    position = np.arange(0, block_at.shape[0], _WIDTH)
    n_left = (position - blocks.starts.take(block)).astype(np.float64)
    n_right = blocks.sizes.take(block) - n_left
    product = n_left * n_right
    is_allowed = (n_left >= blocks.least) & (n_right >= blocks.least)
    inverse = is_allowed / np.where(is_allowed, product, 1.0)
    is_inside = (block[1:] == block[:-1]) & (n_left[:-1] > 0)
    divisor = np.where(is_inside, np.minimum(product[1:], product[:-1]), 0.0)
    before = np.cumsum(blocks.below, axis=1) - blocks.below
    return _Edges(block, n_left, inverse, divisor, (blocks.counts / blocks.sizes[:, None]).T, before)


def _count_cells(lists: Host, ends: list[int], below: Host) -> None:
    """Write how many rows (c - 1, g, e) of each list before each edge are below the end of each class."""
    (g, m), n_edges = lists.shape, below.shape[2]
    flags = np.zeros((g, n_edges * _WIDTH), dtype=np.bool_)
    for c, end in enumerate(ends):
        np.less(lists, end, out=flags[:, :m])
        ones = np.bitwise_count(np.packbits(flags.reshape(-1)).view(np.uint16)).reshape(g, n_edges)
        np.cumsum(ones[:, :-1], axis=1, dtype=np.int32, out=below[c, :, 1:])


def _bound(below: Host, blocks: Blocks, edges: _Edges, at_edge: Host, reach: Host) -> None:
    """Write the score at each edge (g, e), and the largest sum of squares in each cell (g, e - 1)."""
    n_ends = below.shape[0]
    last: Host | None = None
    at_edge[:] = 0.0
    reach[:] = 0.0
    # for two classes the surplus of one says all
    for c in range(n_ends + 1 if n_ends > 1 else 1):
        surplus: Host
        if c < n_ends:
            shares = (blocks.below[c] / blocks.sizes).take(edges.block)
            running = below[c] - (edges.before[c].take(edges.block) + edges.n_left * shares)
            surplus = np.abs(running if last is None else running - last)
            last = running
        else:
            assert last is not None
            surplus = np.abs(last)
        inside = np.maximum(surplus[:, 1:], surplus[:, :-1])
        share = edges.share[c].take(edges.block[:-1])
        inside += _WIDTH * share * (1.0 - share)
        inside *= inside
        reach += inside
        surplus *= surplus
        at_edge += surplus
    at_edge *= edges.inverse


def _best_edges(lists: Host, columns: Host, edges: _Edges, at_edge: Host, is_tied: Sequence[bool]) -> Host:
    """Return the best score (k,) of the edges between different values; 0 where there is none."""
    m, n = lists.shape[1], columns.shape[1]
    is_first = np.empty(edges.block.shape[0], dtype=np.bool_)
    is_first[0] = True
    np.not_equal(edges.block[1:], edges.block[:-1], out=is_first[1:])
    (first,) = is_first.nonzero()
    position = np.arange(0, m, _WIDTH)

    def is_same(lines: Host, at: Host) -> Host:
        rows, values = lists.ravel(), columns.ravel()
        low, high = (values.take(lines * n + rows.take(lines * m + p)) for p in (np.maximum(at - 1, 0), at))
        same: Host = low == high
        return same

    def mask(lines: Host) -> None:
        at_edge[lines] *= ~is_same(lines[:, None], position[None, :])

    tied = np.flatnonzero(is_tied)
    if tied.shape[0]:
        mask(tied)
    for _ in range(2):
        by_list = np.maximum.reduceat(at_edge, first, axis=1)
        line = by_list.argmax(axis=0)
        best: Host = by_list[line, np.arange(first.shape[0])]
        # which edge it was, and whether that lies between equal values
        in_line = at_edge[line.take(np.cumsum(is_first) - 1), np.arange(position.shape[0])]
        (at,) = (in_line == best.take(np.cumsum(is_first) - 1)).nonzero()
        at = at.take(at.searchsorted(first))
        if not (is_same(line, position.take(at)) & (best > 0)).any():
            break
        mask(np.arange(lists.shape[0]))
    return best


def _surviving(
    blocks: Blocks, edges: _Edges, below: Host, reach: Host, best: Host
) -> tuple[Host, Host, Host, Host]:
    """Return list, first position, end and block of the cells that may hold the best position."""
    enough = best * _SLACK
    least = enough.take(edges.block[:-1]) * edges.divisor
    np.copyto(least, np.inf, where=edges.divisor == 0)
    line, cell = np.divmod((reach >= least).ravel().nonzero()[0], reach.shape[1])
    parts = [(line, cell * _WIDTH, cell * _WIDTH + _WIDTH, edges.block.take(cell))]
    # the first and the last t rows of a block, t_c of class c: at most sum_c t_c |e_c - p|^2 / (M - t)
    ends = blocks.starts + blocks.sizes
    distance = 1.0 - 2.0 * edges.share + (edges.share**2).sum(axis=0)
    if len(blocks.ends) == 1:
        distance *= 0.5
    first_edge, last_edge = blocks.starts // _WIDTH + 1, (ends - 1) // _WIDTH
    for edge, start, stop in (
        (first_edge, blocks.starts, first_edge * _WIDTH),
        (last_edge, last_edge * _WIDTH, ends),
    ):
        counted = below[:, :, edge] - edges.before[:, None, :]
        n_left = np.broadcast_to(edge * _WIDTH - blocks.starts, counted.shape[1:])[None]
        inside = np.diff(np.concatenate((counted, n_left)), axis=0, prepend=0)
        if edge is last_edge:
            inside = blocks.counts.T[:, None, :] - inside
        bound = (inside * distance[:, None, :]).sum(axis=0)
        line, block = np.nonzero(bound >= enough * (blocks.sizes - (stop - start)))
        parts.append((line, start.take(block), stop.take(block), block))
    return tuple(np.concatenate(field) for field in zip(*parts, strict=True))  # type: ignore[return-value]


def _positions(
    lists: Host, blocks: Blocks, below: Host, line: Host, start: Host, stop: Host, block: Host
) -> Hits:
    """List all positions of some cells, with the counts left of them."""
    m = lists.shape[1]
    steps = np.arange(_WIDTH)[:, None]
    at = start + steps  # (w, s)
    is_inside = at < stop
    rows = lists.ravel().take(line * m + at, mode="clip")
    is_start = start == blocks.starts.take(block)
    edge = start // _WIDTH
    counted = np.empty((len(blocks.ends), *at.shape))
    for c, end in enumerate(blocks.ends):
        np.cumsum(rows < end, axis=0, dtype=np.float64, out=counted[c])
        before = np.cumsum(blocks.below[c]) - blocks.below[c]
        counted[c] += np.where(is_start, 0, below[c][line, edge] - before.take(block))
    keep = is_inside.ravel()
    lines, blocks_at = (np.broadcast_to(part, at.shape).ravel().compress(keep) for part in (line, block))
    position = at.ravel().compress(keep)
    below_at = counted.reshape(len(blocks.ends), -1).compress(keep, axis=1)
    return Hits(lines, position, blocks_at, np.zeros(position.shape[0], dtype=np.float32), below_at)


def _as_scores(blocks: Blocks, best: Host) -> Host:
    """Turn ``sum_c q_c^2 / (m (M - m))`` into what `gini_scores` gives, less some slack."""
    total = blocks.sizes.astype(np.float64)
    scores: Host = best * _SLACK * total
    if blocks.counts.shape[1] <= FEW_CLASSES:
        scores *= total
    else:
        scores += (blocks.counts * blocks.counts).sum(axis=1) / total * (1.0 - 1e-12)
    return scores
