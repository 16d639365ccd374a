"""The boosted model: trees joined into arrays, scores, probabilities, importances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arraylearn._typing import Array, Dtype, Namespace
from arraylearn.backend.namespace import HOST, Place, from_host
from arraylearn.boosting.log_loss import SCORE_BITS
from arraylearn.grow.trees import LEAF, NO_MAP, Trees, join_trees
from arraylearn.table.binning import Binning
from arraylearn.walk.leaves import sum_leaves
from arraylearn.walk.packed import PackedTrees, pack_trees, packed_at

__all__ = [
    "Boosted",
    "append_trees",
    "first_rounds",
    "pack_grown",
    "probabilities",
    "sum_scores",
]


class Boosted(NamedTuple):
    """A sum of trees for each output."""

    binning: Binning
    start: Array  # (k,) int32: the scores before the first tree, in units of 2**-SCORE_BITS
    # `Trees` over bins, round after round, k trees each, values in units of 2**-SCORE_BITS; None: no rounds
    trees: Trees | None
    gains: tuple[float, ...]  # (d,): sum of the gains of each column's splits, numeric columns first


def append_trees(xp: Namespace, before: Trees, after: Trees) -> Trees:
    """Put the trees of later rounds behind those of earlier ones."""
    assert before.height is not None
    assert after.height is not None
    n_nodes, n_sets = before.n_nodes, 0
    fields = {}
    if before.category_branch is not None:
        n_sets = before.category_branch.shape[0]
        starts = xp.where(after.map_start == NO_MAP, NO_MAP, after.map_start + n_sets)
        fields["map_start"] = xp.concat((before.map_start, starts))
        fields["category_branch"] = xp.concat((before.category_branch, after.category_branch))
    if before.default_branch is not None:
        fields["default_branch"] = xp.concat((before.default_branch, after.default_branch))
    children = xp.where(after.is_leaf, LEAF, after.first_child + n_nodes)
    return Trees(
        roots=xp.concat((before.roots, after.roots + n_nodes)),
        feature=xp.concat((before.feature, after.feature)),
        threshold=xp.concat((before.threshold, after.threshold)),
        first_child=xp.concat((before.first_child, children)),
        height=max(before.height, after.height),
        value=xp.concat((before.value, after.value)),
        **fields,
    )


def first_rounds(trees: Trees, rounds: slice, n_outputs: int) -> Trees:
    """Return the trees of some rounds; the node arrays are shared, not cut."""
    return trees._replace(roots=trees.roots[rounds.start * n_outputs : rounds.stop * n_outputs])


def sum_scores(xp: Namespace, bins: Array, trees: PackedTrees, value: Array, n_outputs: int) -> Array:
    """Return what trees add to the int32 scores (k, n) of rows of bins (d, n)."""
    return xp.astype(sum_leaves(xp, bins, trees, value[:, None], n_outputs), xp.int32)


def pack_grown(
    place: Place, trees: Sequence[Trees], n_features: int, n_numeric: int, n_bins: int
) -> tuple[PackedTrees, Array]:
    """Return trees for walks at a place, and the values of their nodes."""
    joined = join_trees(HOST, trees, n_numeric, n_bins)
    packed = pack_trees(HOST.xp, joined, n_features, n_bins)
    return packed_at(place, packed), from_host(joined.value, place)


def probabilities(xp: Namespace, scores: Array, dtype: Dtype) -> Array:
    r"""Return class probabilities (n, c) of int32 scores (k, n).

    .. math:: p_1 = 1 / (1 + e^{-s}) \quad\text{or}\quad p_c = e^{s_c} / \textstyle\sum_j e^{s_j}
    """
    odds = xp.astype(scores, dtype) * 2.0**-SCORE_BITS
    if scores.shape[0] == 1:
        # the smaller one is computed and the other is what remains: no overflow, and the sum is 1
        small = xp.exp(-xp.abs(odds[0, :]))
        small = small / (1.0 + small)
        one = xp.where(odds[0, :] > 0, 1.0 - small, small)
        return xp.stack((1.0 - one, one), axis=1)
    power = xp.exp(odds - xp.max(odds, axis=0, keepdims=True))
    return xp.permute_dims(power / xp.sum(power, axis=0, keepdims=True), (1, 0))
