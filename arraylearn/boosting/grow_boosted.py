"""Grow the boosted trees of a round: all nodes of a level at once, with two waits a level at most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.backend.threads import get_num_threads
from arraylearn.boosting.boosted_nodes import (
    BoostingLimits,
    GrownTree,
    Nodes,
    SplitsRead,
    best_first,
    cut_back,
    side_values,
)
from arraylearn.boosting.gradients import GRADIENT_BITS, Gradients
from arraylearn.grow.columns import Columns
from arraylearn.grow.formulas import unpack
from arraylearn.grow.histograms.choose import choose_body
from arraylearn.grow.histograms.gradient_splits import Constraint, GradientSplits, best_splits
from arraylearn.grow.histograms.node_blocks import BlockSplits, block_histograms, split_blocks

__all__ = ["Growth", "grow_trees", "limits_in_units"]


class Growth(NamedTuple):
    """A grown tree and where the training rows ended."""

    tree: GrownTree
    order: Array  # (m,) row ids
    splits: BlockSplits  # blocks of `order`; the last level is described here and not sorted
    steps: tuple[list[int], list[int]]  # of the left and the right side of each block


class _GradientLevel(NamedTuple):
    """The nodes of one depth and their packed sums."""

    nodes: Any  # (k,) int64
    running: Array  # (k, d, n_bins)


def grow_trees(
    place: Place,
    columns: Columns,
    gradients: Gradients,
    rows: Array,
    limits: BoostingLimits,
    units: Array,
    is_used: Sequence[Array | None],
) -> Iterator[Growth]:
    """Grow a tree for each line of `gradients` on `rows`, which ascend; its order lasts until the next one.

    `units` comes from `limits_in_units`; `is_used` (d,) marks the columns that each tree may split.
    """
    packed, shifts = gradients
    body = choose_body(place, columns.bins.shape[0] * columns.bins.shape[1])
    if not isinstance(body, str):
        for c in range(packed.shape[0]):
            given = packed[c], int(shifts[c]), rows, limits, units, is_used[c]
            yield _finish_whole(place, columns, *_grow_whole(body, columns, *given), limits)
        return
    for c in range(packed.shape[0]):
        yield _grow_tree(place, columns, packed[c, :], shifts[c : c + 1], rows, limits, units, is_used[c])


def _grow_tree(
    place: Place,
    columns: Columns,
    packed: Array,
    shift: Array,
    rows: Array,
    limits: BoostingLimits,
    units: Array,
    is_used: Array | None,
) -> Growth:
    """Grow a tree level by level; `packed` (n,) and `shift` (1,) are its line of `log_loss_gradients`."""
    order = place.xp.asarray(rows, copy=True)
    regular = place.xp.take(units, shift, axis=0)[0, :]
    is_nominal = columns.bins.shape[0] > columns.n_numeric
    nodes = Nodes(
        int(order.shape[0]), columns.n_bins if is_nominal else 0, is_bounded=limits.trend is not None
    )
    level = _GradientLevel(np.arange(1), _histograms(place, columns, packed, order, nodes, np.arange(1)))
    last: tuple[Any, BlockSplits | None] = (np.arange(0), None)
    depth = 0
    while level.nodes.shape[0]:
        least = limits.min_samples_leaf / nodes.size[level.nodes]
        best = _find_splits(place, columns, level, regular, least, is_used, nodes, limits)
        splits = _read_splits(place, columns, best, shift, least, nodes, level.nodes, limits)
        if depth == 0:
            nodes.value[:1] = splits.value[2]
        chosen = _choose(nodes, level.nodes, splits, limits)
        if not chosen.shape[0]:
            break
        moves = _describe_moves(place, columns, nodes, level, splits, chosen, best.goes_right)
        depth += 1
        first = nodes.add_children(level.nodes, splits, chosen, limits)
        if depth == limits.max_depth:
            last = (level.nodes[chosen], moves)
            break
        order, n_left = split_blocks(place.xp, columns.bins, order, moves)
        _place_children(nodes, level.nodes[chosen], first, to_host(n_left))
        level = _next_level(place, columns, packed, order, nodes, level, chosen, limits)
    return _finish(nodes, order, last, limits)


def limits_in_units(place: Place, limits: BoostingLimits) -> Array:
    """Return ridge, least hessian and smoothing (33, 3) in units of the packed hessians, by their shift."""
    xp = place.xp
    wanted = (limits.l2, limits.min_child_hessian, limits.smoothing)
    # less than one unit of hessian would be nothing to divide by
    lines = [
        [max(x * 2.0 ** (GRADIENT_BITS - shift), least) for x, least in zip(wanted, (0, 1, 1), strict=True)]
        for shift in range(33)
    ]
    return xp.asarray(lines, dtype=xp.float32, device=place.device)


def _histograms(
    place: Place, columns: Columns, packed: Array, order: Array, nodes: Nodes, which: Any
) -> Array:
    starts, sizes = nodes.start[which].tolist(), nodes.size[which].tolist()
    return block_histograms(place.xp, columns.bins, packed, order, starts, sizes, columns.n_bins)


def _find_splits(
    place: Place,
    columns: Columns,
    level: _GradientLevel,
    regular: Array,
    least: Any,
    is_used: Array | None,
    nodes: Nodes,
    limits: BoostingLimits,
) -> GradientSplits:
    xp = place.xp
    constraint = None
    if limits.trend is not None:
        trend = xp.asarray(list(limits.trend), dtype=xp.float32, device=place.device)
        bounds = np.stack((nodes.low[level.nodes], nodes.high[level.nodes]))
        constraint = Constraint(trend, from_host(bounds, place, xp.float32))
    return best_splits(
        xp,
        level.running,
        regular,
        from_host(least, place, xp.float32),
        is_used,
        n_numeric=columns.n_numeric,
        missing=columns.missing,
        constraint=constraint,
    )


def _read_splits(
    place: Place,
    columns: Columns,
    best: GradientSplits,
    shift: Array,
    least: Any,
    nodes: Nodes,
    ids: Any,
    limits: BoostingLimits,
) -> SplitsRead:
    """Read the best splits in one wait, and compute their gains on the host: the same on every backend."""
    xp = place.xp
    k = ids.shape[0]
    parts = [best.cell, best.left, best.total, shift]
    if best.is_missing_left is not None:
        parts.append(xp.astype(best.is_missing_left, xp.int64))
    if nodes.goes_right.shape[1] and best.goes_right is not None:
        parts.append(xp.reshape(xp.astype(best.goes_right, xp.int64), (-1,)))
    read = to_host(xp.concat(parts))
    cell, left, total = read[: 3 * k].reshape(3, k)
    unit, rest = 2.0 ** (int(read[3 * k]) - GRADIENT_BITS), read[3 * k + 1 :]
    right = total - left
    # where nothing is missing, later rows go where most of the weight is
    is_missing_left = left >= right if best.is_missing_left is None else rest[:k] > 0
    gradient, hessian = unpack(np.stack((left, right, total)))
    gradient, hessian = gradient * unit, hessian * unit
    bounds = None if limits.trend is None else (nodes.low[ids], nodes.high[ids])
    value, score = side_values(gradient, hessian, limits.l2, bounds)
    gain = score[0] + score[1] - score[2]
    # float32 chose
    least = np.maximum(0.99999 * least * hessian[2], max(limits.min_child_hessian, unit))
    is_good = np.minimum(hessian[0], hessian[1]) >= least
    is_good &= gain > 1e-6 + 1e-6 * abs(gradient[2])
    feature, position = divmod(cell, columns.n_bins)
    if limits.trend is not None:
        is_good &= np.asarray(limits.trend)[feature] * (value[1] - value[0]) >= 0
    goes_right = rest[k:].reshape(k, -1) > 0 if nodes.goes_right.shape[1] else nodes.goes_right[:0]
    return SplitsRead(feature, position, is_missing_left, hessian, value, gain * is_good, goes_right)


def _choose(nodes: Nodes, ids: Any, splits: SplitsRead, limits: BoostingLimits) -> Any:
    """Choose what is split, as positions in the level; with a limit of leaves, what may still count."""
    nodes.gain[ids] = splits.gain
    able = splits.gain > 0
    if limits.max_leaf_nodes is not None:
        # nodes that later levels add can only come before these, never make room for them
        hopeful = best_first(nodes, limits.max_leaf_nodes)
        able = able & np.asarray([node in hopeful for node in ids.tolist()], dtype=bool)
    chosen = np.nonzero(able)[0]
    # the order of `Trees`: left children, whose numbers are odd, before right ones
    return chosen[np.lexsort((ids[chosen], 1 - ids[chosen] % 2))]


def _describe_moves(
    place: Place,
    columns: Columns,
    nodes: Nodes,
    level: _GradientLevel,
    splits: SplitsRead,
    chosen: Any,
    goes_right: Array | None,
) -> BlockSplits:
    """Return how the rows of the chosen nodes are to be sorted."""
    ids, feature, threshold = level.nodes[chosen], splits.feature[chosen], splits.position[chosen]
    if goes_right is not None:
        has_missing = np.zeros(columns.bins.shape[0], dtype=bool)
        has_missing[list(columns.missing)] = True
        is_plain = (feature < columns.n_numeric) & ~(splits.is_missing_left[chosen] & has_missing[feature])
        threshold = np.where(is_plain, threshold, -1)
        goes_right = place.xp.take(goes_right, from_host(chosen, place, place.xp.int64), axis=0)
    starts, sizes = nodes.start[ids].tolist(), nodes.size[ids].tolist()
    return BlockSplits(starts, sizes, feature.tolist(), threshold.tolist(), goes_right)


def _place_children(nodes: Nodes, parents: Any, first: int, n_left: Any) -> None:
    """Write down where the rows of the new nodes are."""
    start, size = nodes.start[parents], nodes.size[parents]
    nodes.start[first : nodes.n : 2], nodes.start[first + 1 : nodes.n : 2] = start, start + n_left
    nodes.size[first : nodes.n : 2], nodes.size[first + 1 : nodes.n : 2] = n_left, size - n_left


def _next_level(
    place: Place,
    columns: Columns,
    packed: Array,
    order: Array,
    nodes: Nodes,
    level: _GradientLevel,
    chosen: Any,
    limits: BoostingLimits,
) -> _GradientLevel:
    """Sum the rows of the smaller children; the larger ones are what remains of their parents."""
    xp = place.xp
    left = nodes.left[level.nodes[chosen]]
    right = left + 1
    is_right_small = nodes.size[right] < nodes.size[left]
    is_alive = np.maximum(nodes.hessian[left], nodes.hessian[right]) >= 2.0 * limits.min_child_hessian
    is_alive &= np.maximum(nodes.size[left], nodes.size[right]) >= 2 * limits.min_samples_leaf
    if not is_alive.all():
        left, chosen, is_right_small = left[is_alive], chosen[is_alive], is_right_small[is_alive]
    if not left.shape[0]:
        return _GradientLevel(left, level.running)
    small = left + is_right_small
    running = _histograms(place, columns, packed, order, nodes, small)
    parents = xp.take(level.running, from_host(chosen, place, xp.int64), axis=0)
    ids = np.concat((small, left + 1 - is_right_small))
    running = xp.concat((running, parents - running), axis=0)
    is_alive = nodes.size[ids] >= 2 * limits.min_samples_leaf
    if not is_alive.all():
        ids, alive = ids[is_alive], np.nonzero(is_alive)[0]
        running = xp.take(running, from_host(alive, place, xp.int64), axis=0)
    return _GradientLevel(ids, running)


def _grow_whole(
    body: Any,
    columns: Columns,
    packed: Any,
    shift: int,
    rows: Any,
    limits: BoostingLimits,
    units: Any,
    is_used: Any,
) -> tuple[Nodes, Any]:
    """Grow a tree in one call of the compiled body; return its nodes, and the rows in their order."""
    from arraylearn.grow.histograms.records_cpu import NEWTON, NEWTON_BOUNDED, GrowthPlan, Newton

    (d, n), m = columns.bins.shape, rows.shape[0]
    unit = 2.0 ** (shift - GRADIENT_BITS)
    used = np.ones(d, dtype=bool) if is_used is None else is_used
    use_missing = np.zeros(d, dtype=bool)
    use_missing[list(columns.missing)] = True
    use_missing &= used
    plan = GrowthPlan(
        criterion=NEWTON if limits.trend is None else NEWTON_BOUNDED,
        n_bins=columns.n_bins,
        n_numeric=columns.n_numeric,
        max_depth=-1 if limits.max_depth is None else limits.max_depth,
        max_leaves=limits.max_leaf_nodes or 0,
        small=0,
        keeps_rows=True,
        has_missing=bool(use_missing.any()),
        least_rows=max(2, math.ceil(2 * limits.min_samples_leaf)),
        least_weight=2.0 * limits.min_child_hessian,
        least_side=float(units[shift, 1]),
        min_gain=0.0,
        newton=Newton(
            unit=unit,
            ridge=float(units[shift, 0]),
            smoothing=float(units[shift, 2]),
            l2=float(limits.l2),
            least_hessian=float(limits.min_child_hessian),
            least_leaf=float(limits.min_samples_leaf),
        ),
        is_used=used,
        use_missing=use_missing,
        logs=np.zeros(1, dtype=np.int64),
        log_unit=1.0,
        trend=np.asarray(limits.trend or np.zeros(d), dtype=np.int8),
    )
    buffers = columns.buffers.get(
        (m, get_num_threads()),
        lambda _: body.make_buffers(columns.bins, m, 1, plan),
    )
    total = packed.sum() if m == n else packed.take(rows).sum()
    trees, order = body.grow_tree(buffers, plan, rows, packed, total)
    first = trees.first_child
    inner = np.nonzero(first >= 0)[0]
    parent = np.full(first.shape[0], -1)
    parent[first[inner]] = parent[first[inner] + 1] = inner
    gradient, hessian = unpack(trees.sums[:, 0])
    gradient, hessian = gradient * unit, hessian * unit
    bounds = None if trees.bounds is None else (trees.bounds[:, 0], trees.bounds[:, 1])
    value, score = side_values(gradient, hessian, limits.l2, bounds)
    gain = np.zeros(first.shape[0])
    gain[inner] = score[first[inner]] + score[first[inner] + 1] - score[inner]
    whole = np.stack(
        (trees.feature, trees.low, trees.missing_right, first, parent, *trees.rows), dtype=np.int64
    )
    nodes = Nodes.of_fields(whole, np.stack((gain, hessian, value)))
    if trees.sets is not None:
        nodes.goes_right = np.arange(columns.n_bins) > trees.low[:, None]
        nodes.goes_right[:, -1] = trees.missing_right
        is_nominal = trees.feature >= columns.n_numeric
        nodes.goes_right[is_nominal] = trees.sets[is_nominal] > 0
    return nodes, order


def _finish_whole(place: Place, columns: Columns, nodes: Nodes, order: Any, limits: BoostingLimits) -> Growth:
    """Finish a tree that was grown in one call: describe the moves of its last level."""
    parents = np.nonzero((nodes.left >= 0) & (nodes.start[nodes.left] < 0))[0]
    feature, threshold = nodes.feature[parents], nodes.threshold[parents]
    goes_right = None
    if columns.missing or nodes.goes_right.shape[1]:
        goes_right = np.arange(columns.n_bins) > threshold[:, None]
        goes_right[:, -1] = nodes.is_missing_right[parents] > 0
        if nodes.goes_right.shape[1]:
            goes_right = nodes.goes_right[parents]
        has_missing = np.zeros(columns.bins.shape[0], dtype=bool)
        has_missing[list(columns.missing)] = True
        is_set = (feature >= columns.n_numeric) | (has_missing[feature] & ~goes_right[:, -1])
        threshold = np.where(is_set, -1, threshold)
        goes_right = from_host(goes_right, place)
    starts, sizes = nodes.start[parents].tolist(), nodes.size[parents].tolist()
    moves = BlockSplits(starts, sizes, feature.tolist(), threshold.tolist(), goes_right)
    return _finish(nodes, order, (parents, moves), limits)


def _finish(
    nodes: Nodes, order: Array, last: tuple[Any, BlockSplits | None], limits: BoostingLimits
) -> Growth:
    """Cut back to the leaves that count, and return the leaf of each row."""
    tree, leaf = cut_back(nodes, limits)
    parents, moves = last
    n = nodes.n
    ends = np.nonzero((nodes.left[:n] < 0) & (nodes.start[:n] >= 0))[0]
    below = nodes.left[parents]
    step = tree.value[leaf]
    left, right = (np.concat((step[below + side], step[ends])).tolist() for side in (0, 1))
    # whole blocks come after those that are split; no bin is above such a threshold
    whole = (nodes.start[ends].tolist(), nodes.size[ends].tolist(), [0] * len(ends), [1 << 30] * len(ends))
    split = ([], [], [], []) if moves is None else moves[:4]
    starts, sizes, features, thresholds = ([*one, *other] for one, other in zip(split, whole, strict=True))
    goes_right = None if moves is None else moves.goes_right
    return Growth(tree, order, BlockSplits(starts, sizes, features, thresholds, goes_right), (left, right))
