"""Checks of the columns and classes of any fitted estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn.io.fields import Fields, is_number, is_scalar
from arraylearn.table import Column, Schema

__all__ = ["check_classifier", "check_columns"]


def check_columns(fields: Fields) -> None:
    """Check the columns of a fitted estimator; their number is the letter ``d`` from there on."""
    fields.schema = fields.part("schema_", Schema, _check_schema)
    n_columns = fields.sizes["d"]
    fields.natural("n_features_in_", low=n_columns, high=n_columns)
    if "feature_names_in_" in fields:
        fields.take(
            "feature_names_in_",
            lambda value: _is_labels(value) and value.tolist() == list(fields.schema.names),
            "the names of the columns",
        )


def check_classifier(fields: Fields) -> None:
    """Check the columns and classes of a fitted classifier; the number of classes is the letter ``k``."""
    check_columns(fields)
    classes = fields.take(
        "classes_", lambda value: _is_labels(value) and value.shape[0] > 0, "an array (k,) of labels"
    )
    fields.sizes["k"] = int(classes.shape[0])
    if "target_name_in_" in fields:  # set by the command line: the target column of the training file
        fields.text("target_name_in_")


def _is_labels(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "biufOU":
        return False
    return value.dtype.kind != "O" or all(is_scalar(label) for label in value.tolist())


def _check_schema(fields: Fields) -> None:
    fields.flag("has_names")
    columns = fields.parts("columns", Column, _check_column)
    fields.refuse("there must be a column", unless=columns)


def _check_column(fields: Fields) -> None:
    fields.text("name")
    kind = fields.text("kind", ("numeric", "nominal"))
    if kind == "numeric":
        fields.take("domain", lambda value: value is None, "nothing for a numeric column")
        return
    fields.take(
        "domain",
        lambda value: (
            type(value) is tuple and all(isinstance(one, str | bool) or is_number(one) for one in value)
        ),
        "a tuple of categories",
    )
