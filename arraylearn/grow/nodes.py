"""The tree as a struct of arrays: one entry per node, in level order, the same on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from arraylearn._typing import Array
from arraylearn.backend.namespace import (
    Place,
    copy_together,
    is_array,
    locate,
    move,
    supports_float64,
    to_host,
)
from arraylearn.backend.selector import choose_place
from arraylearn.walk.spread import LEAF, NOMINAL, NUMERIC

__all__ = ["LEAF", "NOMINAL", "NUMERIC", "Surrogates", "Tree", "check_tree", "tree_at", "tree_on_host"]

# Integers up to here are exact in float32, the dtype of copies from a device without float64.
_EXACT_IN_FLOAT32 = 1 << 24


class Surrogates(NamedTuple):
    """Splits used where the value for a node's own split is missing, best first: arrays (t, s)."""

    feature: Array  # int32: column of the table, -1 where there is no further surrogate
    kind: Array  # int8: NUMERIC or NOMINAL
    threshold: Array  # float: values up to it go to `low_branch`
    low_branch: Array  # int32: 0, or 1 where the surrogate sends low values to branch 1
    map_start: Array  # int32: where the branches of the categories begin in `Tree.category_branch`
    agreement: Array  # float: share of the rows, known in both, that both send the same way


class Tree(NamedTuple):
    """A decision tree of t nodes and c classes.

    Node 0 is the root; nodes are in level order, the children of a node side by side: branch b of node i
    leads to ``first_child[i] + b``. Row counts are weights. Every field is an array of one library, so that a
    tree can be moved, cut by masks and stacked.
    """

    kind: Array  # (t,) int8: LEAF, NUMERIC (threshold) or NOMINAL (branch by category)
    feature: Array  # (t,) int32: column of the table, -1 for a leaf
    threshold: Array  # (t,) float: a value up to it takes branch 0, a larger one branch 1; 0 where unused
    first_child: Array  # (t,) int32: -1 for a leaf
    n_branches: Array  # (t,) int32: 0 for a leaf
    map_start: Array  # (t,) int32: where the branches of a nominal split begin in `category_branch`, else 0
    category_branch: Array  # (v,) int32: branch of each category, one run per nominal split
    default_branch: Array  # (t,) int32: where a missing value goes; -1: down all branches, by their weight
    parent: Array  # (t,) int32: -1 for the root
    depth: Array  # (t,) int32
    counts: Array  # (t, c) float: weight of the training rows by class
    probability: Array  # (t, c) float: class shares; those of the parent where a node has no row
    impurity: Array  # (t,) float
    gain: Array  # (t,) float: value of the measure for the split, 0 for a leaf
    surrogates: Surrogates | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.kind.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.counts.shape[1])

    def to(self, backend: str) -> Tree:
        """Return the tree on another backend.

        Parameters
        ----------
        backend : str
            ``"numpy"``, ``"torch"``, ``"torch:cuda"``, ``"cupy"``, ...

        Returns
        -------
        Tree
            The same numbers in that library and on that device.
        """
        return tree_at(self, choose_place(locate(self.kind), backend))


def check_tree(tree: Any) -> Tree:
    """Raise unless `tree` is a tree: a frequent mistake is the estimator in place of its `tree_`."""
    if isinstance(tree, Tree):
        return tree
    raise TypeError(
        f"`tree` must be a Tree, the `tree_` of a fitted DecisionTreeClassifier; got {type(tree).__name__}."
    )


def tree_at(tree: Tree, place: Place) -> Tree:
    """Bring a tree to a place."""
    moved: Tree = _map_fields(tree, lambda field: move(field, place))
    return moved


def tree_on_host(tree: Tree) -> Tree:
    """Copy a tree to the host; on a GPU one sync."""
    place = locate(tree.kind)
    if place.library == "numpy":
        return tree
    if not supports_float64(place) and tree.n_nodes > _EXACT_IN_FLOAT32:
        moved: Tree = _map_fields(tree, to_host)
        return moved
    fields: list[Array] = []
    _map_fields(tree, fields.append)
    copies = iter(copy_together(place, *fields))
    copied: Tree = _map_fields(tree, lambda _: next(copies))
    return copied


def _map_fields(part: Any, function: Callable[[Array], Any]) -> Any:
    """Call a function for every array of a tree, in their order, and put the results in their places."""
    if part is None:
        return None
    if is_array(part):
        return function(part)
    return type(part)(*(_map_fields(field, function) for field in part))
