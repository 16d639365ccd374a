"""GPU body of `arraylearn.walk.leaves`: a thread for each row, one launch for all levels of all trees."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import Array, Dtype, Namespace
from arraylearn.backend.gpu.launch import CudaKernel, Launch, c_type
from arraylearn.walk.packed import NO_BIN, PackedTrees

__all__ = ["walk_trees"]

_THREADS = 128
# Threads that fill a GPU: with fewer rows, several threads share the trees of a row.
_ENOUGH = 1 << 16

# A thread takes one row and some trees of one output. `width` is that of the table, 0 where `found` receives
# the leaves themselves; otherwise it receives sums. See `PackedTrees` for the fields of a record.
_WALK_TREES = """
#define THREADS %(threads)d
typedef %(value)s value_type;
typedef %(cut)s cut_type;

extern "C" __global__ void arraylearn_walk_trees(
    const value_type* rows, const long long* record, const cut_type* cut, const bool* goes_right,
    const int* table, const long long* root, long long n, long long per_row, long long per_feature,
    long long n_trees, long long n_parts, long long width, long long feature_bits, long long child_shift,
    long long missing_bin, long long n_bins, long long over_bins, long long* found
) {
    long long thread = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (thread >= n * n_parts) return;
    long long row = thread %% n, part = thread / n;
    long long mask = (1LL << feature_bits) - 1, leaf = 1LL << feature_bits, cut_shift = feature_bits + 3;
    for (long long tree = part; tree < n_trees; tree += n_parts) {
        long long node = root[tree], here = record[node];
        while (!(here & leaf)) {
            value_type value = rows[row * per_row + (here & mask) * per_feature];
            bool is_right;
            if (!over_bins) {
                is_right = value == value ? value > cut[node] : (here & (leaf << 1)) != 0;
            } else {
                long long bin = (long long)value;
                long long field = (here >> cut_shift) & ((1LL << (child_shift - cut_shift)) - 1);
                if (here & (leaf << 2)) is_right = goes_right[field * n_bins + bin];
                else if (bin == missing_bin && (here & (leaf << 1))) is_right = false;
                else is_right = bin + field >= (1LL << (child_shift - cut_shift));
            }
            node = (here >> child_shift) + (is_right ? 1 : 0);
            here = record[node];
        }
        if (!width) found[tree * n + row] = node;
        for (long long c = 0; c < width; ++c) found[(part * width + c) * n + row] += table[node * width + c];
    }
}
"""


def walk_trees(
    launch: Launch, xp: Namespace, rows: Array, trees: PackedTrees, table: Array | None, n_outputs: int
) -> Array:
    """Return leaves, or the sums of what they hold: see `arraylearn.walk.leaves`."""
    over_bins, subsets = trees.cut is None, trees.goes_right
    n, n_trees = rows.shape[1 if over_bins else 0], trees.roots.shape[0]
    width = 0 if table is None else table.shape[1]
    # a part takes every n_parts-th tree, all of one output
    n_parts = n_outputs * max(1, min(n_trees // n_outputs, _ENOUGH // max(1, n * n_outputs)))
    shape = (n_trees, n) if table is None else (n_parts // n_outputs, n_outputs * width, n)
    found = xp.zeros(shape, dtype=xp.int64, device=rows.device)
    if n:
        no_subsets = xp.zeros((1, 1), dtype=xp.bool, device=rows.device)
        no_table = xp.zeros((1, 1), dtype=xp.int32, device=rows.device)
        cut: Array = trees.record if over_bins else trees.cut
        numbers = (
            *(n, *((1, n) if over_bins else (rows.shape[1], 1)), n_trees, n_parts, width),
            *(
                trees.feature_bits,
                trees.child_shift,
                NO_BIN if trees.missing_bin is None else trees.missing_bin,
            ),
            *(1 if subsets is None else subsets.shape[1], over_bins),
        )
        arrays = (
            *(rows, trees.record, cut, no_subsets if subsets is None else subsets),
            *(no_table if table is None else table, trees.roots),
        )
        n_blocks = -(-n_parts * n // _THREADS)
        launch(_kernel(rows.dtype, cut.dtype), n_blocks, (*arrays, *map(np.int64, numbers), found))
    if table is None:
        return found
    return found[0] if found.shape[0] == 1 else xp.sum(found, axis=0)


def _kernel(value: Dtype, cut: Dtype) -> CudaKernel:
    types = {"value": c_type(value), "cut": c_type(cut)}
    return CudaKernel(_WALK_TREES % {"threads": _THREADS, **types}, "arraylearn_walk_trees", _THREADS)
