"""A fitted forest: its trees one by one, importances, predictions, leaves and paths."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import HOST, Place, to_host
from arraylearn.backend.threads import limited_threads
from arraylearn.estimator import ArrayClassifier, Batch
from arraylearn.forest.grove import Forest, pack_groves
from arraylearn.forest.members import members_of
from arraylearn.grow.split import SplitRule
from arraylearn.measures.count_measures import Measure
from arraylearn.table.binning import apply_binning
from arraylearn.tree import DecisionTreeClassifier
from arraylearn.tree.fitted import path_to
from arraylearn.walk.leaves import find_leaves, state_walk, sum_leaves
from arraylearn.walk.packed import PackedTrees

__all__ = ["FittedForest"]


class FittedForest(ArrayClassifier):
    """A classifier whose ``model_`` is a `Forest`."""

    criterion: str | Measure
    n_jobs: int | None

    # ---- fitted attributes

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.estimators_)

    def __getitem__(self, index: int) -> DecisionTreeClassifier:
        """Return a tree."""
        return self.estimators_[index]

    def __iter__(self) -> Iterator[DecisionTreeClassifier]:
        """Yield the trees."""
        return iter(self.estimators_)

    def _rule(self) -> SplitRule:
        return SplitRule("entropy" if self.criterion == "log_loss" else self.criterion)

    @property
    def estimators_(self) -> list[DecisionTreeClassifier]:
        """The trees one by one, over values; their classes are the codes 0, 1, ..."""
        made: list[DecisionTreeClassifier] = self._prepared_at(HOST, "estimators", self._make_members)
        return made

    def _make_members(self) -> list[DecisionTreeClassifier]:
        model: Forest = self.model_
        known = inspect.signature(DecisionTreeClassifier).parameters
        ours = self.get_params(deep=False)
        given = {
            name: ours[name] for name in ours if name in known and name not in ("verbose", "random_state")
        }
        members = []
        for grove in model.groves:
            for tree in members_of(grove, model.binning, self.schema_, self._rule()):
                member = DecisionTreeClassifier(**given, nominal="binary", missing="direction")
                member.schema_, member.n_features_in_ = self.schema_, self.n_features_in_
                member.classes_, member.model_ = np.arange(len(self.classes_)), tree
                members.append(member)
        return members

    @property
    def feature_importances_(self) -> HostArray:
        """Mean over the trees of the share of each column in the decrease of the impurity."""
        gains = sum(np.asarray(grove.gains) for grove in self.model_.groves)
        by_column = np.zeros(self.n_features_in_, dtype=np.float64)
        by_column[[*self.schema_.numeric_idx, *self.schema_.nominal_idx]] = gains
        total = float(by_column.sum())
        return by_column / total if total > 0 else by_column

    # ---- prediction

    def _shares(self, X: Any) -> tuple[Array, Batch]:
        batch = self._open(X)
        model: Forest = self._model_at(batch.place)
        packed, table = self._packed_at(batch.place)
        state_walk(batch.table.n_rows, self.n_features_in_, packed)
        bins = apply_binning(batch.place.xp, model.binning, batch.table)
        with limited_threads(self.n_jobs):
            sums = sum_leaves(batch.place.xp, bins, packed, table)
        return batch.place.xp.permute_dims(sums, (1, 0)), batch

    def apply(self, X: Any) -> Array:
        """Return the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows in the columns of the training data.

        Returns
        -------
        int64 array (n, t)
            Numbers of nodes, those of each tree from 0 on, as in ``estimators_[i].tree_``.
        """
        batch = self._open(X)
        model: Forest = self._model_at(batch.place)
        packed, _ = self._packed_at(batch.place)
        bins = apply_binning(batch.place.xp, model.binning, batch.table)
        with limited_threads(self.n_jobs):
            leaves = find_leaves(batch.place.xp, bins, packed) - packed.roots[:, None]
        return self._deliver(batch.place.xp.permute_dims(leaves, (1, 0)), batch)

    def decision_path(self, X: Any) -> tuple[Any, HostArray]:
        """Return the nodes that each row passes in all trees.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            Rows in the columns of the training data.

        Returns
        -------
        indicator : scipy.sparse.csr_array (n, nodes)
            True for the nodes on the way to the leaves of `apply`; on the host.
        n_nodes_ptr : int64 array (t + 1,)
            Where the columns of each tree begin, and the last one ends.
        """
        from scipy.sparse import hstack

        leaves = to_host(self.apply(X))
        members = self.estimators_
        paths = [path_to(member.tree_, leaf) for member, leaf in zip(members, leaves.T, strict=True)]
        ends = np.cumsum([0, *(member.tree_.n_nodes for member in members)])
        return hstack(paths, format="csr"), ends

    def _packed_at(self, place: Place) -> tuple[PackedTrees, Array]:
        """Return the trees in the form of predictions, and the class shares of their nodes."""

        def pack() -> tuple[PackedTrees, Array]:
            model: Forest = self._model_at(place)
            return pack_groves(place.xp, model.groves, self.n_features_in_, model.binning.n_bins)

        packed: tuple[PackedTrees, Array] = self._prepared_at(place, "packed", pack)
        return packed

    def predict(self, X: Any) -> Array:
        """Predict the class labels (n,) of rows."""
        shares, batch = self._shares(X)
        return self._deliver_labels(batch.place.xp.argmax(shares, axis=1), batch)

    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities (n, c) of the classes, in the order of `classes_`."""
        shares, batch = self._shares(X)
        xp = batch.place.xp
        shares = xp.astype(shares, batch.float_dtype)
        return self._deliver(shares / xp.sum(shares, axis=1, keepdims=True), batch)
