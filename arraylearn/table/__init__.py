"""Rows in: arrays and data frames become a numeric block and nominal codes; labels; bins and intervals."""

from arraylearn.table.binning import Bins, bin_table, quantile_edges
from arraylearn.table.discretize import (
    DISCRETIZERS,
    Discretization,
    apply_edges,
    discretize,
    equal_frequency_edges,
    equal_width_edges,
    tree_edges,
)
from arraylearn.table.labels import DeclaredLabels, Labels, encode_labels, encode_with
from arraylearn.table.read import (
    holds_bad_numbers,
    learn_schema,
    learn_schema_and_labels,
    open_frame,
    read_table,
)
from arraylearn.table.schema import MISSING_CODE, Column, Schema, Table

__all__ = [
    "DISCRETIZERS",
    "MISSING_CODE",
    "Bins",
    "Column",
    "DeclaredLabels",
    "Discretization",
    "Labels",
    "Schema",
    "Table",
    "apply_edges",
    "bin_table",
    "discretize",
    "encode_labels",
    "encode_with",
    "equal_frequency_edges",
    "equal_width_edges",
    "holds_bad_numbers",
    "learn_schema",
    "learn_schema_and_labels",
    "open_frame",
    "quantile_edges",
    "read_table",
    "tree_edges",
]
