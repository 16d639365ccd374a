"""The leaves that rows reach in trees of two branches per node; splits compare values or bins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.dispatch import get_tuning, state_work, why_not_compiled
from arraylearn.backend.gpu.launch import cuda_launcher
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import is_on_host, locate
from arraylearn.walk.packed import PackedTrees

__all__ = ["choose_body", "find_leaves", "state_walk", "sum_leaves"]

# Rows, trees, table (or None) and number of outputs -> leaves (t, n) without a table, else sums (outputs, n).
Body = Callable[[Array, PackedTrees, Array, int], Array]

# Rows x trees that walk at a time on the host: what they read and write stays in the second-level cache.
_STEPS_IN_CACHE = 32_768
# The array program bins a value in the time of so many steps.
_STEPS_PER_VALUE = 10


def choose_body(xp: Namespace, rows: Array, trees: PackedTrees, n_columns: int) -> Body | str:
    """Return the body that walks these rows, or the reason why the array program does.

    `n_columns` is the width of the table of leaves, 0 where the leaves themselves are asked for.
    """
    if launch := cuda_launcher(locate(rows)):
        from arraylearn.walk import leaves_gpu

        return partial(leaves_gpu.walk_trees, launch, xp)
    n_rows, least = _count_rows(rows, trees), get_tuning().compiled_walk
    if (reason := why_not_compiled(locate(rows), n_rows * _steps_per_row(trees), least)) is not None:
        return reason
    from arraylearn.walk import leaves_cpu, planes_cpu

    if planes_cpu.pays_for(trees, n_rows, n_columns):
        return planes_cpu.walk_trees
    return leaves_cpu.walk_trees


def state_walk(n_rows: int, n_columns: int, trees: PackedTrees) -> None:
    """State the work of a prediction that bins rows and sends them down trees."""
    per_row = _steps_per_row(trees) + _STEPS_PER_VALUE * n_columns
    state_work(n_rows * per_row, get_tuning().compiled_walk)


def _steps_per_row(trees: PackedTrees) -> int:
    return int(trees.roots.shape[0]) * max(1, trees.height)


def find_leaves(xp: Namespace, rows: Array, trees: PackedTrees) -> Array:
    """Find the leaf that each row reaches in each tree; no sync.

    Parameters
    ----------
    rows : float array (n, d) or integer array (d, n)
        Values by row, or bins by feature, as the trees were packed.
    trees : PackedTrees
        From `pack_trees`.

    Returns
    -------
    int64 array (t, n)
        Nodes.
    """
    body = choose_body(xp, rows, trees, 0)
    if not isinstance(body, str):
        return body(rows, trees, None, 1)
    parts = [_walk(xp, rows, trees, chunk) for chunk in _chunks(rows, trees, 0)]
    return xp.concat(parts, axis=1) if len(parts) > 1 else parts[0]


def sum_leaves(xp: Namespace, rows: Array, trees: PackedTrees, table: Array, n_outputs: int = 1) -> Array:
    """Look up the leaves that each row reaches, and sum over the trees; no sync.

    Parameters
    ----------
    rows : float array (n, d) or integer array (d, n)
        Values by row, or bins by feature, as the trees were packed.
    trees : PackedTrees
        From `pack_trees`: a multiple of `n_outputs` trees; tree i adds to output ``i % n_outputs``.
    table : int32 array (m, w)
        What each leaf holds.
    n_outputs : int
        Number of outputs, of w sums each.

    Returns
    -------
    int64 array (n_outputs * w, n)
        Exact sums, whatever the order.
    """
    width = int(table.shape[1])
    n_rounds = int(trees.roots.shape[0]) // n_outputs
    body = choose_body(xp, rows, trees, width)
    if not isinstance(body, str):
        return body(rows, trees, table, n_outputs)
    parts = []
    for chunk in _chunks(rows, trees, width):
        leaves = xp.reshape(_walk(xp, rows, trees, chunk), (-1,))
        n_walking = chunk.stop - chunk.start
        held = xp.reshape(xp.take(table, leaves, axis=0), (n_rounds, n_outputs, n_walking, width))
        summed = xp.permute_dims(xp.sum(held, axis=0, dtype=xp.int64), (0, 2, 1))
        parts.append(xp.reshape(summed, (n_outputs * width, n_walking)))
    return xp.concat(parts, axis=1) if len(parts) > 1 else parts[0]


def _count_rows(rows: Array, trees: PackedTrees) -> int:
    return int(rows.shape[1 if trees.cut is None else 0])


def _chunks(rows: Array, trees: PackedTrees, width: int) -> Iterator[slice]:
    """Cut the rows so that temporaries fit the budget, on the host the cache as well; at least one chunk."""
    n, n_trees = _count_rows(rows, trees), max(1, int(trees.roots.shape[0]))
    most = max(1, _STEPS_IN_CACHE // n_trees) if is_on_host(locate(rows)) else None
    return row_chunks(n, n_trees * (64 + 12 * width), most=most) if n else iter([slice(0, 0)])


def _walk(xp: Namespace, rows: Array, trees: PackedTrees, chunk: slice) -> Array:
    """Return the leaves (t, rows) of a chunk of rows."""
    device = array_api_compat.device(rows)
    shape = (int(trees.roots.shape[0]), chunk.stop - chunk.start)
    node = xp.reshape(xp.broadcast_to(trees.roots[:, None], shape), (-1,))
    flat = xp.reshape(rows, (-1,))
    if not flat.shape[0]:
        return xp.reshape(node, shape)
    start = xp.arange(chunk.start, chunk.stop, dtype=xp.int64, device=device)
    per_feature = int(rows.shape[1])
    if trees.cut is not None:  # values lie row by row
        start, per_feature = start * per_feature, 1
    start = xp.reshape(xp.broadcast_to(start[None, :], shape), (-1,))
    feature_mask, shifts = trees.feature_mask, (trees.cut_shift, trees.child_shift)
    for _ in range(trees.height):
        record = xp.take(trees.record, node, axis=0)
        feature = record & feature_mask
        at = start + (feature if per_feature == 1 else feature * per_feature)
        node = _step(xp, trees, shifts, node, record, xp.take(flat, at, axis=0))
    return xp.reshape(node, shape)


def _step(
    xp: Namespace, trees: PackedTrees, shifts: tuple[int, int], node: Array, record: Array, value: Array
) -> Array:
    """Return the next nodes of rows at nodes, whose records and values are given.

    `shifts` of the trees are read once for all levels.
    """
    cut_shift, child_shift = shifts
    if trees.cut is not None:
        is_right = value > xp.take(trees.cut, node, axis=0)
        if trees.flips:
            is_right = is_right | (xp.isnan(value) & ((record & trees.flip_bit) != 0))
        return (record >> child_shift) + xp.astype(is_right, xp.int64)
    bins = xp.astype(value, xp.int64)
    if trees.goes_right is not None:
        by_subset = (record & trees.subset_bit) != 0
        row = (record >> cut_shift) & ((1 << trees.cut_bits) - 1)
        cell = xp.where(by_subset, row * trees.goes_right.shape[1] + bins, 0)
        is_right = by_subset & xp.take(xp.reshape(trees.goes_right, (-1,)), cell, axis=0)
        record = record + (xp.astype(is_right, xp.int64) << child_shift)
        bins = xp.where(by_subset, 0, bins)
    if trees.missing_bin is not None:
        bins = xp.where((bins == trees.missing_bin) & ((record & trees.flip_bit) != 0), 0, bins)
    return (record + (bins << cut_shift)) >> child_shift
