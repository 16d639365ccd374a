"""Labelled rows, and the classes of held-out rows counted at every node that they pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype, from_host, read_flags, to_host
from arraylearn.estimator import check_same_length
from arraylearn.grow.cut import sum_leaves_below
from arraylearn.grow.trees import Trees, tree_on_host
from arraylearn.table import Schema, Table, encode_with
from arraylearn.tree.predict import leaves_of, make_walker, shares_of
from arraylearn.walk.spread import find_missing
from arraylearn.weights import read_weights

__all__ = ["Sample", "count_held_out", "node_counts", "read_sample"]


class Sample(NamedTuple):
    """Labelled rows."""

    place: Place
    schema: Schema
    table: Table
    codes: HostArray  # (n,) class of each row, on the host
    weights: HostArray | None  # (n,) on the host; None: 1 each

    def on_host(self) -> Sample:
        """Copy the table to the host."""
        numeric, codes = (to_host(part) for part in (self.table.numeric, self.table.codes))
        return self._replace(place=HOST, table=self.table._replace(numeric=numeric, codes=codes))


def node_counts(tree: Trees, sample: Sample) -> HostArray:
    """Weigh the rows of each class (t, c) that pass each node of a host tree."""
    place, table, codes = sample.place, sample.table, sample.codes
    xp, c = place.xp, tree.n_classes
    walker = make_walker(place, tree, sample.schema)
    node = leaves_of(place, walker, table)
    dtype = accumulator_dtype(place)
    weight = np.ones(codes.shape[0]) if sample.weights is None else np.astype(sample.weights, np.float64)
    key = node * c + from_host(codes, place, xp.int64)
    spreads = to_host(find_missing(xp, table)) if walker.spreads else np.zeros(codes.shape[0], np.bool)
    at_one_leaf = np.where(spreads, 0.0, weight)
    counts = histogram(xp, key, tree.n_nodes * c, from_host(at_one_leaf, place, dtype))
    if bool(np.any(spreads)):
        rows = np.nonzero(spreads)[0]
        entry, leaf, share = shares_of(place, walker, table, rows)
        part = share * from_host(weight[rows][entry], place, dtype)
        key = leaf * c + from_host(codes[rows][entry], place, xp.int64)
        counts = counts + histogram(xp, key, tree.n_nodes * c, part)
    return sum_leaves_below(tree, np.astype(to_host(counts), np.float64).reshape(tree.n_nodes, c))


def count_held_out(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Array:
    """Count held-out rows of each class at the nodes that they pass.

    Parameters
    ----------
    model : DecisionTreeClassifier
        Fitted.
    X : array-like or data frame (n, d)
        Rows that the tree was not grown from. Categories that `fit` has not met count as missing values.
    y : array-like (n,)
        Their classes, among those of the model; it need not have all of them.
    sample_weight : array-like (n,), optional
        Weights of the rows.

    Returns
    -------
    float array (t, c)
        At the place where predictions are computed. The first row is the root, which all of them pass.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import count_held_out
    >>> model = DecisionTreeClassifier().fit([[1], [2], [3]], [0, 0, 1])
    >>> count_held_out(model, [[0], [5], [5]], [0, 0, 1]).tolist()
    [[2.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    sample = read_sample(model, X, y, sample_weight)
    counts = node_counts(tree_on_host(model.model_), sample)
    return from_host(counts, sample.place, accumulator_dtype(sample.place))


def read_sample(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Sample:
    """Read labelled rows by the schema and the classes of an estimator."""
    batch = model._open(X)
    codes = encode_with(y, model.classes_)
    check_same_length(batch, codes)
    model._refuse_bad(*read_flags(batch.place, batch.is_bad))
    weights = read_weights(sample_weight, codes.shape[0], HOST)
    return Sample(batch.place, model.schema_, batch.table, codes, weights)
