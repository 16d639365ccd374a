"""Trees of a forest are put together as they are grown."""

from __future__ import annotations

import weakref

import numpy as np

from arraylearn.backend.namespace import HOST
from arraylearn.forest.grove import join_grove
from arraylearn.grow.trees import LEAF, Trees


def chain(depth, seed):
    """Return a tree over three columns with a leaf at each level, as growth returns it."""
    rng, n = np.random.default_rng(seed), 2 * depth + 1
    feature, child = np.full(n, LEAF, np.int32), np.full(n, LEAF, np.int32)
    inner = slice(0, n - 1, 2)
    feature[inner], child[inner] = rng.integers(0, 3, depth), np.arange(1, n, 2)
    return Trees(
        roots=np.zeros(1, np.int64),
        feature=feature,
        threshold=rng.integers(0, 9, n).astype(np.int32),
        first_child=child,
        depth=np.repeat(np.arange(depth + 1), 2)[1:].astype(np.int32),
        gain=np.where(feature == LEAF, 0.0, rng.random(n)),
        sums=rng.random((n, 1)).astype(np.float32),
        probability=rng.integers(0, 9, (n, 4)).astype(np.int32),
    )


def test_parts_are_joined_one_behind_the_other_however_their_sizes_differ():
    parts = [chain(depth, seed) for seed, depth in enumerate((0, 1, 900, 3, 40))]
    grove = join_grove(HOST, iter(parts), len(parts), 3)
    starts = np.cumsum([0, *(part.n_nodes for part in parts)])
    np.testing.assert_array_equal(grove.trees.roots, starts[:-1])
    assert grove.trees.height == 900
    gains = np.zeros(3)
    for part, start, end in zip(parts, starts[:-1], starts[1:], strict=True):
        nodes, is_leaf = slice(start, end), part.feature == LEAF
        np.testing.assert_array_equal(grove.trees.feature[nodes], part.feature)
        np.testing.assert_array_equal(grove.trees.threshold[nodes], np.where(is_leaf, 0, part.threshold))
        children = np.where(is_leaf, LEAF, part.first_child + start)
        np.testing.assert_array_equal(grove.trees.first_child[nodes], children)
        np.testing.assert_array_equal(grove.trees.probability[nodes], part.probability)
        np.testing.assert_array_equal(grove.weight[nodes], part.sums[:, 0])
        by_column = np.bincount(part.feature[~is_leaf], part.gain[~is_leaf], 3)
        gains += by_column / max(by_column.sum(), 1e-300)
    np.testing.assert_allclose(grove.gains, gains, rtol=1e-12)
    assert grove.trees.probability.shape[0] == grove.weight.shape[0] == starts[-1]
    assert grove.trees.probability.dtype == np.int32


def test_no_part_is_kept():
    alive = weakref.WeakSet()

    class Shares(np.ndarray):
        """An array that can be counted."""

        __hash__ = object.__hash__

    def grow():
        for seed in range(5):
            assert len(alive) <= 1  # the part before this one
            part = chain(20, seed)
            shares = part.probability.view(Shares)
            alive.add(shares)
            part = part._replace(probability=shares)
            del shares
            yield part

    assert join_grove(HOST, grow(), 5, 3).trees.roots.shape[0] == 5
