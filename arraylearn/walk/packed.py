"""Trees in the form in which rows walk down them: a node in one integer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, move
from arraylearn.grow.trees import NO_MAP, Trees

__all__ = ["NO_BIN", "PackedTrees", "join_packed", "pack_trees", "packed_at"]

# In place of `PackedTrees.missing_bin` in compiled bodies and on GPUs: there is none.
NO_BIN = -1


class PackedTrees(NamedTuple):
    """Trees whose nodes are integers of 63 bits.

    From the top::

        child | all ones minus the cut | by subset | flips | leaf | feature

    The second field holds 2**cut_bits - 1 - cut. A bin, shifted to that field and added, carries 1 into the
    child exactly if it is above the cut; the right child follows the left one, so the sum names the child
    that the row goes to. A leaf is its own child, and no bin is above its cut. Over values the cuts stand in
    an array of their own. A node that splits by a subset of bins holds the row of `goes_right` in place of
    the cut. A node that flips sends missing values to the child opposite to the one that a comparison gives.
    """

    record: Array  # (m,) int64
    cut: Array | None  # (m,) float over values, inf at a leaf; None over bins
    roots: Array  # (t,) int64
    goes_right: Array | None  # (s, n_bins) bool; None without subsets
    height: int  # the depth of the deepest leaf
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


def pack_trees(xp: Namespace, trees: Trees, n_features: int, n_bins: int | None = None) -> PackedTrees:
    """Pack trees of two branches per node over `n_bins` bins, or over values where that is None; no sync."""
    m, is_leaf = trees.n_nodes, trees.is_leaf
    own = xp.arange(m, dtype=xp.int64, device=array_api_compat.device(trees.first_child))
    child = xp.where(is_leaf, own, xp.astype(trees.first_child, xp.int64))
    by_subset, goes_right = None, None
    if n_bins is not None and trees.category_branch is not None and trees.category_branch.shape[0]:
        by_subset = trees.map_start != NO_MAP
        goes_right = xp.reshape(trees.category_branch > 0, (-1, n_bins))
    n_subsets = 0 if goes_right is None else int(goes_right.shape[0])
    feature_bits = max(1, (n_features - 1).bit_length())
    cut_bits = 0 if n_bins is None else max(n_bins.bit_length(), n_subsets.bit_length())
    if m.bit_length() + cut_bits + 3 + feature_bits > 63:
        raise ValueError(f"A node must fit 63 bits; got {m} nodes over {n_features} features.")
    record, cut, top = child << cut_bits, None, (1 << cut_bits) - 1
    if n_bins is None:
        cut = xp.where(is_leaf, xp.inf, trees.threshold)
    else:
        lacking = top - xp.astype(trees.threshold, xp.int64)
        if by_subset is not None:
            lacking = xp.where(by_subset, xp.astype(trees.map_start, xp.int64) // n_bins, lacking)
        record = record + xp.where(is_leaf, 0, lacking)
    assert trees.height is not None
    flags = xp.astype(is_leaf, xp.int64)
    if trees.default_branch is not None:
        goes_on = trees.default_branch > 0
        flips = goes_on if n_bins is None else ~goes_on
        flags = flags + 2 * xp.astype(flips & ~is_leaf, xp.int64)
    if by_subset is not None:
        flags = flags + 4 * xp.astype(by_subset & ~is_leaf, xp.int64)
    feature = xp.where(is_leaf, 0, xp.astype(trees.feature, xp.int64))
    return PackedTrees(
        (((record << 3) + flags) << feature_bits) + feature,
        cut,
        xp.astype(trees.roots, xp.int64),
        goes_right,
        trees.height,
        feature_bits,
        cut_bits,
        None if n_bins is None or trees.default_branch is None else n_bins - 1,
        trees.default_branch is not None,
    )


def join_packed(xp: Namespace, parts: Sequence[PackedTrees]) -> PackedTrees:
    """Put packed trees over values of the same columns behind one another."""
    records, roots, n_nodes = [], [], 0
    for part in parts:
        records.append(part.record + (n_nodes << part.child_shift))
        roots.append(part.roots + n_nodes)
        n_nodes += int(part.record.shape[0])
    return parts[0]._replace(
        record=xp.concat(records),
        cut=xp.concat([part.cut for part in parts]),
        roots=xp.concat(roots),
        height=max(part.height for part in parts),
        flips=any(part.flips for part in parts),
    )


def packed_at(place: Place, trees: PackedTrees) -> PackedTrees:
    """Bring packed trees to a place."""
    record, cut, roots, goes_right = (part if part is None else move(part, place) for part in trees[:4])
    return PackedTrees(record, cut, roots, goes_right, *trees[4:])
