"""Weights of rows: check them, multiply them by the weights of their classes, bring them to the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.utils.class_weight import compute_class_weight

from arraylearn._typing import Array
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype, from_host, is_array, to_host

__all__ = ["join_weights", "read_weights"]


def read_weights(sample_weight: Any, n_rows: int, place: Place) -> Array | None:
    """Check sample weights and bring them to `place` in the accumulator's dtype; None stays None."""
    if sample_weight is None:
        return None
    given = to_host(sample_weight) if is_array(sample_weight) else from_host(sample_weight, HOST)
    if given.ndim == 0:
        given = given.repeat(n_rows)
    if given.ndim != 1 or given.shape[0] != n_rows:
        raise ValueError(
            f"`sample_weight` must have one number per row; got shape {given.shape}, "
            f"expected sample_weight.shape == ({n_rows},)."
        )
    weights = given.astype("float64")
    total = weights.sum()
    if not (weights.min() >= 0 and total < float("inf")):
        raise ValueError("`sample_weight` must be finite and at least 0; got a negative number, NaN or inf.")
    if total == 0:
        raise ValueError("`sample_weight` must have a positive sum; all weights are zero.")
    return from_host(weights, place, accumulator_dtype(place))


def join_weights(
    sample_weight: Any, class_weight: Mapping[Any, float] | str | None, classes: Any, codes: Any, place: Place
) -> Array | None:
    """Return the weight of each row at `place`, its class's included; None where all are 1.

    `codes` are the positions of the rows' labels in `classes`, both on the host.
    """
    weights = read_weights(sample_weight, codes.shape[0], place)
    if class_weight is None:
        return weights
    by_class = compute_class_weight(class_weight, classes=classes, y=classes.take(codes))
    by_row = from_host(by_class.take(codes), place, accumulator_dtype(place))
    return by_row if weights is None else weights * by_row
