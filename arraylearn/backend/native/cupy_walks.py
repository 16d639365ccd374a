"""CuPy body of the walks down trees: a thread for each row, one launch for all levels of all trees."""

from __future__ import annotations

from typing import Any

import cupy

Gpu = Any

__all__ = ["walk_trees"]

# Threads that fill a GPU; fewer rows than this share the trees among several threads.
_THREADS = 1 << 16

# A thread takes one row and some trees of one output. `width` is that of the table, 0 where `found` takes the
# leaves themselves; otherwise it takes sums. See `PackedTrees` for the fields of a record.
_walk = cupy.ElementwiseKernel(
    "raw B rows, raw int64 record, raw C cut, raw bool goes_right, raw int32 table, raw int64 root, int64 n, "
    "int64 per_row, int64 per_feature, int64 n_trees, int64 n_outputs, int64 n_parts, int64 width, "
    "int64 feature_bits, int64 child_shift, int64 missing_bin, int64 n_bins, bool over_bins",
    "raw int64 found",
    """
    long long row = i % n, part = i / n;
    long long mask = (1LL << feature_bits) - 1, leaf = 1LL << feature_bits, cut_shift = feature_bits + 3;
    for (long long tree = part; tree < n_trees; tree += n_parts) {
        long long node = root[tree], here = record[node];
        while (!(here & leaf)) {
            B value = rows[row * per_row + (here & mask) * per_feature];
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
    """,
    "arraylearn_walk_trees",
)


def walk_trees(rows: Gpu, trees: Any, table: Gpu | None, n_outputs: int) -> Gpu:
    over_bins = trees.cut is None
    n, n_trees = rows.shape[1 if over_bins else 0], trees.roots.shape[0]
    width = 0 if table is None else table.shape[1]
    # a part takes every n_parts-th tree, all of one output
    n_parts = n_outputs * max(1, min(n_trees // n_outputs, _THREADS // max(1, n * n_outputs)))
    shape = (n_trees, n) if table is None else (n_parts // n_outputs, n_outputs * width, n)
    found = cupy.zeros(shape, dtype=cupy.int64)
    if n:
        subsets = trees.goes_right
        _walk(
            cupy.ascontiguousarray(rows),
            trees.record,
            trees.record if over_bins else trees.cut,
            cupy.zeros((1, 1), dtype=bool) if subsets is None else cupy.ascontiguousarray(subsets),
            cupy.zeros((1, 1), dtype=cupy.int32) if table is None else cupy.ascontiguousarray(table),
            trees.roots,
            n,
            *((1, n) if over_bins else (rows.shape[1], 1)),
            n_trees,
            n_outputs,
            n_parts,
            width,
            trees.feature_bits,
            trees.child_shift,
            -1 if trees.missing_bin is None else trees.missing_bin,
            1 if subsets is None else subsets.shape[1],
            over_bins,
            found,
            size=n_parts * n,
        )
    if table is None:
        return found
    return found[0] if len(found) == 1 else found.sum(axis=0)
