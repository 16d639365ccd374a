"""Grown trees in the form of the model: class shares, what each column gained, nodes in few bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend import ops
from arraylearn.backend.namespace import HOST, Place, from_host

__all__ = ["Grove", "Part", "join_parts", "make_part"]

host = HOST.xp

# Class shares are whole numbers in these units, so that no sum depends on its order.
_SHARE_BITS = 20


class Grove(NamedTuple):
    """Trees that grew together."""

    trees: ops.BinnedTrees
    shares: Array  # (m, c) int32: class shares of each node in units of 2**-20
    gains: Array  # (d,) float: decrease of the impurity by column, on the host


class Part(NamedTuple):
    """Some trees of a grove, on the host."""

    feature: Any  # (m,) int32
    threshold: Any  # (m,) int32: all bins at a leaf
    left: Any  # (m,) int32; a leaf is its own child
    right: Any  # (m,) int32
    shares: Any  # (m, c) int32
    gains: Any  # (t, d) float64
    roots: Any  # (t,) int32
    depth: int


def make_part(grown: ops.GrownTrees, n_bins: int, d: int) -> Part:
    """Turn class weights into shares, and sum up what each column gained in each tree."""
    n_nodes, n_trees = grown.left.shape[0], grown.roots.shape[0]
    here = host.arange(n_nodes, dtype=host.int32)
    is_leaf = grown.left < 0
    left = host.where(is_leaf, here, host.astype(grown.left, host.int32))
    total = host.sum(grown.counts, axis=1)
    shares = grown.counts / total[:, None]
    shares = host.astype(host.round(shares * (1 << _SHARE_BITS)), host.int32)
    impurity = total - host.sum(grown.counts * grown.counts, axis=1) / total
    inner = host.nonzero(~is_leaf)[0]
    below = left[inner]
    gain = impurity[inner] - impurity[below] - impurity[below + 1]
    tree = host.searchsorted(grown.roots, inner, side="right") - 1
    cell = tree * d + grown.feature[inner]
    return Part(
        host.astype(grown.feature, host.int32),
        host.where(is_leaf, host.asarray(n_bins, dtype=host.int32), host.astype(grown.threshold, host.int32)),
        left,
        host.where(is_leaf, here, left + 1),
        shares,
        ops.histogram(host, cell, n_trees * d, gain).reshape(n_trees, d),
        host.astype(grown.roots, host.int32),
        grown.depth,
    )


def join_parts(place: Place, parts: list[Part], n_bins: int) -> Grove:
    """Put the trees of several parts into one grove, at the place."""
    xp, first = place.xp, 0
    for i, part in enumerate(parts):
        parts[i] = part._replace(left=part.left + first, right=part.right + first, roots=part.roots + first)
        first += part.left.shape[0]

    def bring(name: str) -> Array:
        return from_host(host.concat([getattr(part, name) for part in parts]), place)

    def fill(value: int, dtype: Any) -> Array:
        return xp.full((first,), value, dtype=dtype, device=place.device)

    trees = ops.BinnedTrees(
        bring("feature"),
        bring("threshold"),
        fill(True, xp.bool),
        fill(-1, xp.int32),
        xp.zeros((0, n_bins), dtype=xp.bool, device=place.device),
        bring("left"),
        bring("right"),
        fill(0, xp.int32),
        bring("roots"),
        max(part.depth for part in parts),
    )
    # tree by tree: which trees grew together must not show in the order of the additions
    gains = host.sum(host.concat([part.gains for part in parts]), axis=0)
    return Grove(trees, bring("shares"), gains)
