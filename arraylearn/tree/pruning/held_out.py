"""Rows that the tree has not seen, counted at the nodes that they come by."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.arrays.segments import histogram
from arraylearn.backend.namespace import (
    HOST,
    Place,
    accumulator_dtype,
    from_host,
    is_array,
    read_flags,
    to_host,
)
from arraylearn.table import Schema, Table
from arraylearn.tree.nodes import Tree, tree_on_host
from arraylearn.tree.predict import find_leaves, find_missing, leaf_shares, make_walker
from arraylearn.tree.pruning.descent import Sample
from arraylearn.tree.pruning.levels import read_bounds, sum_upward
from arraylearn.weights import read_weights

__all__ = ["class_codes", "count_held_out", "node_counts", "read_sample"]


def node_counts(place: Place, tree: Tree, schema: Schema, table: Table, codes: Any, weights: Any) -> Array:
    """Weight (t, c) of the rows of each class that come by each node.

    Parameters
    ----------
    codes : int array (n,)
        Class of each row, on the host.
    weights : float array (n,), optional
        Weight of each row, on the host; default: 1 each.
    """
    xp, c = place.xp, tree.n_classes
    walker = make_walker(place, tree_on_host(tree), schema)
    node = find_leaves(place, walker, table, not walker.spreads)
    dtype = accumulator_dtype(place)
    weight = np.ones(codes.shape[0]) if weights is None else np.astype(weights, np.float64)
    key = node * c + from_host(codes, place, xp.int64)
    missing = _rows_to_spread(place, table) if walker.spreads else None
    whole = weight
    if missing is not None:
        whole = np.where(missing, 0.0, weight)
    counts = histogram(xp, key, tree.n_nodes * c, from_host(whole, place, dtype))
    if missing is not None:
        rows = np.nonzero(missing)[0]
        entry, leaf, share = leaf_shares(place, walker, table, rows)
        part = share * from_host(weight[rows][entry], place, dtype)
        key = leaf * c + from_host(codes[rows][entry], place, xp.int64)
        counts = counts + histogram(xp, key, tree.n_nodes * c, part)
    counts = xp.reshape(counts, (tree.n_nodes, c))
    return sum_upward(xp, walker.tree, read_bounds(tree), counts)


def _rows_to_spread(place: Place, table: Table) -> Any:
    """Tell which rows miss a value, on the host; None where no row does."""
    is_missing = to_host(find_missing(place, table))
    return is_missing if bool(np.any(is_missing)) else None


def class_codes(classes: Any, y: Any) -> Any:
    """Find the labels `y` among the sorted `classes`, on the host; refuse those that are not there."""
    values = to_host(y) if is_array(y) else from_host(y, HOST)
    if values.ndim != 1:
        raise ValueError(f"`y` must have one axis; got the shape {values.shape}.")
    if values.dtype.kind != classes.dtype.kind and "O" not in (values.dtype.kind, classes.dtype.kind):
        is_number = (values.dtype.kind in "biuf", classes.dtype.kind in "biuf")
        if is_number[0] != is_number[1]:
            raise ValueError(f"`y` must hold labels like {classes[:1].tolist()[0]!r}; got {values[0]!r}.")
    codes = np.clip(np.searchsorted(classes, values), max=classes.shape[0] - 1)
    unknown = values[classes[codes] != values]
    if unknown.shape[0]:
        raise ValueError(
            f"`y` must hold the {classes.shape[0]} classes that the tree was fitted on; got {unknown[0]!r}."
        )
    return np.astype(codes, np.int64)


def count_held_out(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Array:
    """Count held-out rows of each class at the nodes that they come by.

    Parameters
    ----------
    model : DecisionTreeClassifier
        Fitted.
    X : array-like or data frame (n, d)
        Rows that the tree has not seen. Categories that it has not seen either count as missing values.
    y : array-like (n,)
        Their classes, among those of the model; it need not have all of them.
    sample_weight : array-like (n,), optional
        Weights of the rows.

    Returns
    -------
    float array (t, c)
        Where the prediction computes; the first row holds all of them.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree.pruning import count_held_out
    >>> model = DecisionTreeClassifier().fit([[1], [2], [3]], [0, 0, 1])
    >>> count_held_out(model, [[0], [5], [5]], [0, 0, 1]).tolist()
    [[2.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    sample = read_sample(model, X, y, sample_weight)
    return node_counts(sample.place, model.model_, sample.schema, sample.table, sample.codes, sample.weights)


def read_sample(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Sample:
    """Read labelled rows in the columns and classes of an estimator that knows them."""
    batch = model._open(X)
    codes = class_codes(model.classes_, y)
    if codes.shape[0] != batch.table.n_rows:
        raise ValueError(
            f"`X` and `y` must have as many rows; got {batch.table.n_rows} and {codes.shape[0]}."
        )
    model._refuse_bad(*read_flags(batch.place, batch.is_bad))
    weights = read_weights(sample_weight, codes.shape[0], HOST)
    return Sample(batch.place, model.schema_, batch.table, codes, weights)
