"""CuPy bodies of the walks down trees: a thread for each row, one launch for all levels."""

from __future__ import annotations

from typing import Any

import cupy

Gpu = Any

__all__ = ["follow_thresholds", "sum_leaves", "sum_shares"]

# Threads that fill a GPU; fewer rows than this share the trees of a forest among several threads.
_THREADS = 1 << 16

_follow = cupy.ElementwiseKernel(
    "raw T x, raw int64 feature, raw U threshold, raw int64 child, raw int64 side, int64 d, bool has_side",
    "int64 leaf",
    """
    long long node = 0;
    while (child[node] != node) {
        T value = x[i * d + feature[node]];
        bool right = value > threshold[node];
        if (has_side && value != value) right = side[node] != 0;
        node = child[node] + (right ? 1 : 0);
    }
    leaf = node;
    """,
    "arraylearn_follow_thresholds",
)


def follow_thresholds(
    x: Gpu, feature: Gpu, threshold: Gpu, child: Gpu, n_levels: int, default: Gpu | None
) -> Gpu:
    n, d = x.shape
    leaf = cupy.zeros(n, dtype=cupy.int64)
    if d == 0 or n_levels == 0 or n == 0:
        return leaf
    feature, child = feature.astype(cupy.int64, copy=False), child.astype(cupy.int64, copy=False)
    side = child if default is None else default.astype(cupy.int64)
    return _follow(cupy.ascontiguousarray(x), feature, threshold, child, side, d, default is not None, leaf)


_shares = cupy.ElementwiseKernel(
    "raw B bins, raw int64 record, raw int32 shares, raw int64 root, int64 n, int64 n_trees, "
    "int64 per_thread, int64 n_classes, int64 column_bits, int64 bin_shift, int64 child_shift",
    "raw int64 sums",
    """
    long long row = i % n, first = (i / n) * per_thread;
    long long last = first + per_thread < n_trees ? first + per_thread : n_trees;
    long long column_mask = (1LL << column_bits) - 1, leaf_bit = 1LL << column_bits;
    for (long long tree = first; tree < last; ++tree) {
        long long here = record[root[tree]];
        while (!(here & leaf_bit)) {
            long long bin = (long long)bins[(here & column_mask) * n + row];
            here = record[(here + (bin << bin_shift)) >> child_shift];
        }
        long long leaf = here >> child_shift;
        for (long long c = 0; c < n_classes; ++c) sums[i * n_classes + c] += shares[leaf * n_classes + c];
    }
    """,
    "arraylearn_sum_shares",
)


def sum_shares(bins: Gpu, walk: Any) -> Gpu:
    n, n_trees, n_classes = bins.shape[1], walk.root.shape[0], walk.shares.shape[1]
    if n == 0:
        return cupy.zeros((0, n_classes), dtype=cupy.int64)
    n_parts = max(1, min(n_trees, _THREADS // n))
    per_thread = -(-n_trees // n_parts)
    n_parts = -(-n_trees // per_thread)
    sums = cupy.zeros((n_parts, n, n_classes), dtype=cupy.int64)
    shape = (n, n_trees, per_thread, n_classes, walk.column_bits, walk.bin_shift, walk.child_shift)
    arrays = (cupy.ascontiguousarray(bins), walk.record, cupy.ascontiguousarray(walk.shares), walk.root)
    _shares(*arrays, *shape, sums, size=n_parts * n)
    return sums[0] if n_parts == 1 else sums.sum(axis=0)


_leaves = cupy.ElementwiseKernel(
    "raw B bins, raw int32 feature, raw int32 threshold, raw bool is_missing_right, raw int32 subset, "
    "raw bool goes_right, raw int32 left, raw int32 right, raw int32 value, raw int32 root, int64 n, "
    "int64 n_trees, int64 n_outputs, int64 n_bins",
    "int32 total",
    """
    long long row = i % n;
    int sum = 0;
    for (long long tree = i / n; tree < n_trees; tree += n_outputs) {
        long long node = root[tree];
        while (left[node] != right[node]) {
            int bin = (int)bins[feature[node] * n + row];
            bool is_right = bin > threshold[node];
            if (bin == n_bins - 1) is_right = is_missing_right[node];
            if (subset[node] >= 0) is_right = goes_right[subset[node] * n_bins + bin];
            node = is_right ? right[node] : left[node];
        }
        sum += value[node];
    }
    total = sum;
    """,
    "arraylearn_sum_leaves",
)


def sum_leaves(bins: Gpu, trees: Any, n_outputs: int) -> Gpu:
    n = bins.shape[1]
    total = cupy.zeros((n_outputs, n), dtype=cupy.int32)
    if n == 0:
        return total
    goes_right = trees.goes_right
    n_bins = goes_right.shape[1]
    if not goes_right.shape[0]:
        goes_right = trees.is_missing_right  # never read
    arrays = (
        trees.feature,
        trees.threshold,
        trees.is_missing_right,
        trees.subset,
        goes_right,
        trees.left,
        trees.right,
        trees.value,
        trees.root,
    )
    return _leaves(cupy.ascontiguousarray(bins), *arrays, n, trees.root.shape[0], n_outputs, n_bins, total)
