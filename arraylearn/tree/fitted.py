"""What a fitted tree can tell: predictions, paths, importances."""

from __future__ import annotations

from typing import Any

from arraylearn._typing import Array
from arraylearn.backend import ops
from arraylearn.backend.namespace import (
    HOST,
    Place,
    accumulator_dtype,
    from_host,
    read_flags,
    to_host,
)
from arraylearn.estimator import ArrayClassifier, Batch
from arraylearn.tree.nodes import LEAF, Tree, tree_on_host
from arraylearn.tree.predict import (
    Walker,
    find_leaves,
    find_missing,
    has_missing,
    leaf_shares,
    make_walker,
)

__all__ = ["FittedTree"]

host = HOST.xp


class FittedTree(ArrayClassifier):
    """A classifier whose ``model_`` is a `Tree`."""

    # ---- what was learned

    @property
    def tree_(self) -> Tree:
        """The tree."""
        model: Tree = self.model_
        return model

    @property
    def feature_importances_(self) -> Any:
        """Share of each column in the total decrease of the impurity, on the host."""
        tree = tree_on_host(self.model_)
        weight = host.sum(tree.counts, axis=1) * tree.impurity
        decrease = host.where(tree.kind == LEAF, 0.0, weight)
        below = ops.histogram(host, tree.parent[1:], tree.n_nodes, weight[1:])
        decrease = host.where(tree.kind == LEAF, 0.0, decrease - below)
        columns = host.clip(tree.feature, min=0)
        by_column = ops.histogram(host, columns, self.n_features_in_, host.clip(decrease, min=0.0))
        total = host.sum(by_column)
        return by_column / total if total > 0 else by_column

    def get_depth(self) -> int:
        """Return the depth of the deepest leaf."""
        return int(tree_on_host(self.model_).depth[-1])

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return int(host.sum(host.astype(tree_on_host(self.model_).kind == LEAF, host.int64)))

    # ---- prediction

    def predict(self, X: Any) -> Any:
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
        walker = self._walker_at(batch.place)
        missing = self._rows_to_spread(batch, walker)
        if missing is not None and missing.shape[0]:
            shares = self._distribution(batch, walker, missing)
            return self._deliver_labels(batch.place.xp.argmax(shares, axis=1), batch)
        leaves = find_leaves(batch.place, walker, batch.table, not walker.spreads)
        return self._deliver_labels(batch.place.xp.take(walker.label, leaves, axis=0), batch)

    def predict_proba(self, X: Any) -> Any:
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
        walker = self._walker_at(batch.place)
        missing = self._rows_to_spread(batch, walker)
        shares = self._distribution(batch, walker, missing)
        return self._deliver(batch.place.xp.astype(shares, batch.float_dtype, copy=False), batch)

    def apply(self, X: Any) -> Any:
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
        return self._deliver(self._leaves(batch), batch)

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
        from scipy.sparse import csr_array

        batch = self._open(X)
        tree = tree_on_host(self.model_)
        node = to_host(self._leaves(batch))
        self._refuse_bad(*read_flags(batch.place, batch.is_bad))
        rows, nodes = [], []
        row = host.arange(node.shape[0])
        while row.shape[0]:
            rows.append(row)
            nodes.append(node)
            above = tree.parent[node]
            row, node = row[above >= 0], above[above >= 0]
        row, node = host.concat(rows), host.concat(nodes)
        shape = (batch.table.n_rows, tree.n_nodes)
        path = csr_array((host.ones(row.shape[0], dtype=host.bool), (row, node)), shape=shape)
        path.sort_indices()
        return path

    def _walker_at(self, place: Place) -> Walker:
        """Return the tree in the form of predictions; it is kept with the other copies of the model."""
        copies = self.__dict__.get("_copies", {})
        key = ("walker", place.xp, str(place.device))
        kept = copies.get(key)
        if kept is not None and kept[0] is self.model_:
            walker: Walker = kept[1]
            return walker
        walker = make_walker(place, tree_on_host(self.model_), self.schema_)
        copies[key] = (self.model_, walker)
        return walker

    def _rows_to_spread(self, batch: Batch, walker: Walker) -> Any:
        """Find the rows that need more than a default branch, on the host; None where there are none."""
        if not walker.spreads:
            return None
        (found,) = read_flags(batch.place, has_missing(batch.place, batch.table))
        return host.nonzero(to_host(find_missing(batch.place, batch.table)))[0] if found else None

    def _leaves(self, batch: Batch) -> Array:
        place, walker = batch.place, self._walker_at(batch.place)
        xp = place.xp
        missing = self._rows_to_spread(batch, walker)
        leaves = find_leaves(place, walker, batch.table, not walker.spreads)
        if missing is None:
            return leaves
        entry, node, share = leaf_shares(place, walker, batch.table, missing)
        share, node = to_host(share), to_host(node)
        order = host.argsort(-share, stable=True)
        order = order[host.argsort(entry[order], stable=True)]
        first = host.concat((host.ones(1, dtype=host.bool), entry[order][1:] != entry[order][:-1]))
        on_host = host.asarray(to_host(leaves), copy=True)
        on_host[missing] = node[order][first]
        return from_host(on_host, place, xp.int64)

    def _distribution(self, batch: Batch, walker: Walker, missing: Any) -> Array:
        place = batch.place
        xp = place.xp
        leaves = find_leaves(place, walker, batch.table, not walker.spreads)
        shares = xp.take(walker.tree.probability, leaves, axis=0)
        if missing is None:
            return xp.astype(shares, accumulator_dtype(place))
        entry, node, share = leaf_shares(place, walker, batch.table, missing)
        parts = xp.take(walker.tree.probability, node, axis=0) * share[:, None]
        summed = ops.segment_sum(xp, parts, from_host(entry, place), missing.shape[0])
        back = host.full(batch.table.n_rows, -1, dtype=host.int64)
        back[missing] = host.arange(missing.shape[0])
        back_on = from_host(back, place)
        spread = xp.take(summed, xp.maximum(back_on, 0), axis=0)
        return xp.where((back_on >= 0)[:, None], spread, xp.astype(shares, spread.dtype))
