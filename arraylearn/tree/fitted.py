"""A fitted tree: predictions, paths, importances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.segments import histogram, segment_sum
from arraylearn.backend.namespace import (
    HOST,
    Place,
    from_host,
    to_host,
)
from arraylearn.estimator import ArrayClassifier, Batch, Correction
from arraylearn.grow.trees import NO_PARENT, Trees, tree_on_host
from arraylearn.tree.predict import Walker, leaves_of, make_walker, shares_of
from arraylearn.walk.spread import find_missing, has_missing

__all__ = ["FittedTree", "path_to"]

# In place of the position of a row among those that go down several branches.
_AT_ONE_LEAF = -1


class FittedTree(ArrayClassifier):
    """A classifier whose ``model_`` is one tree, a record of `Trees`."""

    # ---- fitted attributes

    @property
    def tree_(self) -> Trees:
        """The tree, on the host."""
        tree: Trees = self._prepared_at(HOST, "tree", lambda: tree_on_host(self.model_))
        return tree

    @property
    def feature_importances_(self) -> HostArray:
        """Share of each column in the total decrease of the impurity, on the host."""
        tree = self.tree_
        weight = np.sum(tree.counts, axis=1) * tree.impurity
        decrease = np.where(tree.is_leaf, 0.0, weight)
        below = histogram(HOST.xp, tree.parent[1:], tree.n_nodes, weight[1:])
        decrease = np.where(tree.is_leaf, 0.0, decrease - below)
        columns = np.clip(tree.feature, min=0)
        by_column: HostArray = histogram(HOST.xp, columns, self.n_features_in_, np.clip(decrease, min=0.0))
        total = np.sum(by_column)
        return by_column / total if total > 0 else by_column

    def get_depth(self) -> int:
        """Return the depth of the deepest leaf."""
        height: int = self.model_.height
        return height

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return int(np.sum(np.astype(tree_on_host(self.model_).is_leaf, np.int64)))

    # ---- prediction

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows in the columns of the training data.

        Returns
        -------
        array (n,)
            Class labels, in the library and on the device of `X`.
        """
        batch = self._open(X)
        codes, spread = self.classify(batch)
        return self._deliver_labels(codes, batch, spread)

    def classify(self, batch: Batch) -> tuple[Array, Correction | None]:
        """Return class codes, and how to correct them where values are missing; no sync."""
        place, walker = batch.place, self._walker_at(batch.place)
        leaves = leaves_of(place, walker, batch.table)
        codes = place.xp.take(walker.label, leaves, axis=0)
        return codes, self._where_missing(
            batch, lambda rows: place.xp.argmax(self._spread(batch, leaves, rows), axis=1)
        )

    def predict_proba(self, X: Any) -> Array:
        """Return the class shares of the leaf of each row.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows in the columns of the training data.

        Returns
        -------
        array (n, c)
            Probabilities, in the order of `classes_`.
        """
        batch = self._open(X)
        xp, walker = batch.place.xp, self._walker_at(batch.place)
        leaves = leaves_of(batch.place, walker, batch.table)
        shares = xp.take(walker.probability, leaves, axis=0)
        spread = self._where_missing(
            batch, lambda rows: xp.astype(self._spread(batch, leaves, rows), batch.float_dtype, copy=False)
        )
        return self._deliver(xp.astype(shares, batch.float_dtype, copy=False), batch, spread)

    def apply(self, X: Any) -> Array:
        """Return the leaf that each row reaches, as the number of its node.

        A row that goes down several branches is counted where the largest part of it arrives.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows in the columns of the training data.

        Returns
        -------
        int64 array (n,)
            Numbers of nodes.
        """
        batch = self._open(X)
        return self._deliver(*self._leaves(batch))

    def decision_path(self, X: Any) -> Any:
        """Return the nodes that each row passes.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows in the columns of the training data.

        Returns
        -------
        scipy.sparse.csr_array (n, nodes)
            True for the nodes on the way to the leaf of `apply`; on the host.
        """
        return path_to(self.tree_, to_host(self.apply(X)))

    def _walker_at(self, place: Place) -> Walker:
        """Return the tree in the form of predictions."""
        walker: Walker = self._prepared_at(
            place, "walker", lambda: make_walker(place, tree_on_host(self.model_), self.schema_)
        )
        return walker

    def _where_missing(self, batch: Batch, compute: Callable[[HostArray], Array]) -> Correction | None:
        """Compute rows with missing values again; None where every node has a default branch."""
        if not self._walker_at(batch.place).spreads:
            return None

        def compute_rows() -> Array:
            return compute(np.nonzero(to_host(find_missing(batch.place.xp, batch.table)))[0])

        return Correction(has_missing(batch.place.xp, batch.table), compute_rows)

    def _leaves(self, batch: Batch) -> tuple[Array, Batch, Correction | None]:
        place, walker = batch.place, self._walker_at(batch.place)
        leaves = leaves_of(place, walker, batch.table)

        def with_largest_part(rows: HostArray) -> Array:
            entry, node, share = shares_of(place, walker, batch.table, rows)
            share, node = to_host(share), to_host(node)
            order = np.argsort(-share, stable=True)
            order = order[np.argsort(entry[order], stable=True)]
            first = np.concat((np.ones(1, dtype=np.bool), entry[order][1:] != entry[order][:-1]))
            on_host = np.asarray(to_host(leaves), copy=True)
            on_host[rows] = node[order][first]
            return from_host(on_host, place, place.xp.int64)

        return leaves, batch, self._where_missing(batch, with_largest_part)

    def _spread(self, batch: Batch, leaves: Array, rows: HostArray) -> Array:
        """Return the class shares (n, c), with those of `rows` added up over the branches they go down."""
        place, walker = batch.place, self._walker_at(batch.place)
        xp = place.xp
        entry, node, share = shares_of(place, walker, batch.table, rows)
        parts = xp.take(walker.probability, node, axis=0) * share[:, None]
        summed = segment_sum(xp, parts, from_host(entry, place), rows.shape[0])
        position = np.full(batch.table.n_rows, _AT_ONE_LEAF, dtype=np.int64)
        position[rows] = np.arange(rows.shape[0])
        position_on = from_host(position, place)
        spread = xp.take(summed, xp.maximum(position_on, 0), axis=0)
        shares = xp.take(walker.probability, leaves, axis=0)
        is_spread = position_on != _AT_ONE_LEAF
        return xp.where(is_spread[:, None], spread, xp.astype(shares, spread.dtype))


def path_to(tree: Trees, leaf: HostArray) -> Any:
    """Return the nodes on the way to the leaf (n,) of each row: a sparse array (n, nodes), on the host."""
    from scipy.sparse import csr_array

    parents, rows, nodes = tree.parent, [], []
    row, node = np.arange(leaf.shape[0]), leaf
    while row.shape[0]:
        rows.append(row)
        nodes.append(node)
        above = parents[node]
        goes_on = above != NO_PARENT
        row, node = row[goes_on], above[goes_on]
    row, node = np.concat(rows), np.concat(nodes)
    shape = (leaf.shape[0], tree.n_nodes)
    path = csr_array((np.ones(row.shape[0], dtype=np.bool), (row, node)), shape=shape)
    path.sort_indices()
    return path
