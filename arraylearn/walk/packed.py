"""Trees in the form in which rows walk down them: a node in one integer."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, move

__all__ = ["BinaryNodes", "PackedTrees", "pack_trees", "packed_at"]


class BinaryNodes(NamedTuple):
    """Trees of two branches per node: m nodes of t trees, over bins or over values.

    Missing bins are the largest ones, missing values are NaN. Without `missing_right` they are compared as
    all others: a missing bin goes to the second child, NaN to the first.
    """

    feature: Array  # (m,) integer: the feature that a node asks; any feature at a leaf
    cut: Array  # (m,) integer bins or float values: larger ones go to the second child; any at a leaf
    child: Array  # (m,) integer: the first child, which the second one follows; a leaf is its own child
    root: Array  # (t,) integer
    depth: int  # of the deepest leaf
    missing_right: Array | None = None  # (m,) bool: whether missing values go to the second child
    subset: Array | None = (
        None  # (m,) integer: the row of `goes_right` that decides instead of the cut, or -1
    )
    goes_right: Array | None = None  # (s, n_bins) bool


class PackedTrees(NamedTuple):
    """Trees whose nodes are integers of 63 bits.

    From the top::

        child | what is missing from the cut to all ones | by subset | flips | leaf | feature

    A bin that is shifted to the place of the cut and added carries 1 into the child exactly where it is above
    the cut. A leaf is its own child, and no bin is above its cut. Over values the cuts stand beside the
    integers. A node by subset holds the row of `goes_right` in place of the cut. A node that flips sends
    missing values to the other child than a comparison would.
    """

    record: Array  # (m,) int64
    cut: Array | None  # (m,) float over values, inf at a leaf; None over bins
    root: Array  # (t,) int64
    goes_right: Array | None  # (s, n_bins) bool; None without subsets
    depth: int
    feature_bits: int
    cut_bits: int  # 0 over values
    missing_bin: int | None  # None over values, or where no node flips
    flips: bool  # whether a node may flip

    @property
    def cut_shift(self) -> int:
        """Where the cut begins."""
        return self.feature_bits + 3

    @property
    def child_shift(self) -> int:
        """Where the child begins."""
        return self.cut_shift + self.cut_bits

    @property
    def feature_mask(self) -> int:
        """The bits of the feature."""
        return (1 << self.feature_bits) - 1

    @property
    def leaf_bit(self) -> int:
        """Set at a leaf."""
        return 1 << self.feature_bits

    @property
    def flip_bit(self) -> int:
        """Set where missing values go to the other child."""
        return 2 << self.feature_bits

    @property
    def subset_bit(self) -> int:
        """Set where a subset decides."""
        return 4 << self.feature_bits


def pack_trees(xp: Namespace, nodes: BinaryNodes, n_features: int, n_bins: int | None = None) -> PackedTrees:
    """Pack the nodes of trees over `n_bins` bins, or over values where that is None; no sync."""
    child = xp.astype(nodes.child, xp.int64)
    m = int(child.shape[0])
    is_leaf = child == xp.arange(m, dtype=xp.int64, device=array_api_compat.device(child))
    by_subset, n_subsets = None, 0
    if nodes.subset is not None and nodes.goes_right is not None and nodes.goes_right.shape[0]:
        by_subset, n_subsets = nodes.subset >= 0, int(nodes.goes_right.shape[0])
    feature_bits = max(1, (n_features - 1).bit_length())
    cut_bits = 0 if n_bins is None else max(n_bins.bit_length(), n_subsets.bit_length())
    if m.bit_length() + cut_bits + 3 + feature_bits > 63:
        raise ValueError(f"A node must fit 63 bits; got {m} nodes over {n_features} features.")
    record, cut, top = child << cut_bits, None, (1 << cut_bits) - 1
    if n_bins is None:
        cut = xp.where(is_leaf, xp.inf, nodes.cut)
    else:
        lacking = top - xp.astype(nodes.cut, xp.int64)
        if by_subset is not None:
            lacking = xp.where(by_subset, xp.astype(nodes.subset, xp.int64), lacking)
        record = record + xp.where(is_leaf, 0, lacking)
    flags = xp.astype(is_leaf, xp.int64)
    if nodes.missing_right is not None:
        flips = nodes.missing_right if n_bins is None else ~nodes.missing_right
        flags = flags + 2 * xp.astype(flips & ~is_leaf, xp.int64)
    if by_subset is not None:
        flags = flags + 4 * xp.astype(by_subset & ~is_leaf, xp.int64)
    feature = xp.where(is_leaf, 0, xp.astype(nodes.feature, xp.int64))
    return PackedTrees(
        (((record << 3) + flags) << feature_bits) + feature,
        cut,
        xp.astype(nodes.root, xp.int64),
        None if by_subset is None else nodes.goes_right,
        nodes.depth,
        feature_bits,
        cut_bits,
        None if n_bins is None or nodes.missing_right is None else n_bins - 1,
        nodes.missing_right is not None,
    )


def packed_at(place: Place, trees: PackedTrees) -> PackedTrees:
    """Bring packed trees to a place."""
    record, cut, root, goes_right = (part if part is None else move(part, place) for part in trees[:4])
    return PackedTrees(record, cut, root, goes_right, *trees[4:])
