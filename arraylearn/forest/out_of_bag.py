"""The out-of-bag estimate of a forest: each row judged by the trees that did not see it."""

from __future__ import annotations

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.errors import warn_caller
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, to_host
from arraylearn.forest.bags import draw_bags
from arraylearn.forest.grove import Grove, pack_groves
from arraylearn.walk.leaves import find_leaves

__all__ = ["judge_out_of_bag"]

# Trees that judge in one batch.
_TREES_JUDGED = 16


def judge_out_of_bag(
    place: Place,
    bins: Array,
    groves: tuple[Grove, ...],
    n_bins: int,
    generators: list[np.random.Generator],
    weights: HostArray | None,
    n_draws: int | None,
) -> HostArray:
    """Return the class shares (n, c) of each row by the trees grown without it; NaN where there is none.

    Parameters
    ----------
    bins : integer array (d, n)
        The training rows.
    generators : list
        Of the bags, one for each tree.
    weights, n_draws
        As for `draw_bags`.
    """
    d, n = bins.shape
    sums = np.zeros((n, groves[0].trees.probability.shape[1]), dtype=np.int64)
    for grove in groves:
        packed, shares_at = pack_groves(place.xp, [grove], d, n_bins)
        shares, n_trees = to_host(shares_at), grove.trees.n_trees
        own, generators = generators[:n_trees], generators[n_trees:]
        for batch in row_chunks(n_trees, 32 * n, most=_TREES_JUDGED):
            bags = draw_bags(own[batch], n, weights, n_draws)
            some = packed._replace(roots=packed.roots[batch])
            leaves = to_host(find_leaves(place.xp, bins, some))
            ends = np.cumulative_sum(bags.sizes).tolist()
            for leaf, start, end in zip(leaves, [0, *ends], ends, strict=False):
                is_out = np.ones(n, dtype=bool)
                is_out[bags.rows[start:end]] = False
                sums[is_out] += shares[leaf[is_out]]
    total = np.sum(sums, axis=1)
    is_judged = total > 0
    if not bool(np.any(is_judged)):
        raise ValueError(
            "`oob_score` must have rows that are out of some bag; every row is in all of them. "
            "Grow more trees, or draw the bags with bootstrap=True."
        )
    if not bool(np.all(is_judged)):
        warn_caller(
            f"{int(np.sum(~is_judged))} of {n} rows are in every bag and have no out-of-bag estimate; "
            "grow more trees.",
            UserWarning,
        )
    return np.where(is_judged[:, None], sums / np.where(is_judged, total, 1)[:, None], np.nan)
