"""The boosted model: trees joined into arrays, scores, probabilities, importances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend import ops
from arraylearn.backend.namespace import Place
from arraylearn.ensemble.columns import Binning, apply_binning
from arraylearn.ensemble.grow_boosted import GrownTree
from arraylearn.table import Table

__all__ = ["Boosted", "first_rounds", "join_trees", "probabilities", "score_table", "sum_gains"]


class Boosted(NamedTuple):
    """A sum of trees for each output."""

    binning: Binning
    start: Array  # (k,) int32: the scores before the first tree, in units of 2**-SCORE_BITS
    trees: ops.BinnedTrees  # round after round, k trees each


def join_trees(place: Place, trees: Sequence[GrownTree], n_bins: int) -> ops.BinnedTrees:
    """Write trees side by side into arrays at `place`, nodes that were cut off left out."""
    xp = place.xp
    feature: list[int] = []
    threshold: list[int] = []
    is_missing_right: list[bool] = []
    subset: list[int] = []
    sets: list[list[bool]] = []
    children: tuple[list[int], list[int]] = ([], [])
    value: list[int] = []
    root: list[int] = []
    depth = 0
    for tree in trees:
        first = len(feature)
        root.append(first)
        new_id = {0: first}
        queue = [0]
        for node in queue:
            depth = max(depth, tree.depth[node])
            here = new_id[node]
            feature.append(tree.feature[node])
            threshold.append(tree.threshold[node])
            is_missing_right.append(tree.is_missing_right[node])
            value.append(tree.value[node])
            listed = tree.goes_right[node]
            subset.append(-1)
            for side, child in zip(children, (tree.left[node], tree.right[node]), strict=True):
                if child >= 0:
                    new_id[child] = first + len(queue)
                    queue.append(child)
                side.append(new_id[child] if child >= 0 else here)
            if tree.left[node] < 0:
                feature[here], threshold[here] = 0, n_bins  # nothing is larger: stay on the left
            elif listed is not None:
                subset[here] = len(sets)
                sets.append(listed)

    def line(numbers: list[Any], dtype: Any) -> Array:
        return xp.asarray(numbers, dtype=dtype, device=place.device)

    return ops.BinnedTrees(
        line(feature, xp.int32),
        line(threshold, xp.int32),
        line(is_missing_right, xp.bool),
        line(subset, xp.int32),
        xp.reshape(line(sets, xp.bool), (len(sets), n_bins)),
        line(children[0], xp.int32),
        line(children[1], xp.int32),
        line(value, xp.int32),
        line(root, xp.int32),
        depth,
    )


def first_rounds(trees: ops.BinnedTrees, rounds: slice, n_outputs: int) -> ops.BinnedTrees:
    """Return the trees of some rounds; their nodes stay where they are."""
    return trees._replace(root=trees.root[rounds.start * n_outputs : rounds.stop * n_outputs])


def score_table(xp: Namespace, model: Boosted, table: Table) -> Array:
    """Return the int32 scores (k, n) of the rows of a table."""
    bins = apply_binning(xp, model.binning, table)
    return ops.sum_leaves(xp, bins, model.trees, model.start.shape[0]) + model.start[:, None]


def probabilities(xp: Namespace, scores: Array, dtype: Any) -> Array:
    r"""Return class probabilities (n, c) of int32 scores (k, n).

    .. math:: p_1 = 1 / (1 + e^{-s}) \quad\text{or}\quad p_c = e^{s_c} / \textstyle\sum_j e^{s_j}
    """
    real = xp.astype(scores, dtype) * 2.0**-ops.SCORE_BITS
    if scores.shape[0] == 1:
        # the smaller one is computed and the other is what remains: no overflow, and the sum is 1
        small = xp.exp(-xp.abs(real[0, :]))
        small = small / (1.0 + small)
        one = xp.where(real[0, :] > 0, 1.0 - small, small)
        return xp.stack((1.0 - one, one), axis=1)
    power = xp.exp(real - xp.max(real, axis=0, keepdims=True))
    return xp.permute_dims(power / xp.sum(power, axis=0, keepdims=True), (1, 0))


def sum_gains(trees: Sequence[GrownTree], n_columns: int) -> list[float]:
    """Return the share of each column in the gains of all splits."""
    totals = [0.0] * n_columns
    for tree in trees:
        for node, left in enumerate(tree.left):
            if left >= 0 and (tree.parent[node] < 0 or tree.left[tree.parent[node]] >= 0):
                totals[tree.feature[node]] += tree.gain[node]
    whole = sum(totals)
    return [total / whole if whole > 0 else 0.0 for total in totals]
