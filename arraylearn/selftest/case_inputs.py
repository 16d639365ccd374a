"""Inputs of the self-test's cases: NumPy arrays by name, made from a seed, floats in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.random import as_generator

__all__ = [
    "NODE_SIZES",
    "binned_rows",
    "box_problem",
    "count_table",
    "definite_matrices",
    "forest_nodes",
    "keyed_values",
    "labelled_rows",
    "scored_rows",
    "sorted_lists",
    "two_row_sets",
    "with_gaps",
]

HostArrays = dict[str, HostArray]

NODE_SIZES = (600, 40, 60)  # rows of each of `forest_nodes`


def keyed_values(seed: int, m: int = 500) -> HostArrays:
    """Make numbers with keys, columns of bins and codes with missing values."""
    rng = as_generator(seed)
    return {
        "values": rng.normal(size=m),
        "integers": rng.integers(-50, 50, m),
        "keys": rng.integers(0, 7, m),
        "columns": rng.integers(0, 16, (3, m)).astype("uint8"),
        "keep": rng.permutation(m) < 200,
        "codes": rng.integers(-1, 5, (3, m)).astype("int32"),
    }


def sorted_lists(seed: int, m: int = 200) -> HostArrays:
    """Make rows in the order of each of three columns."""
    rng = as_generator(seed)
    columns = rng.integers(0, 30, (3, m)).astype("float64")
    return {
        "lists": columns.argsort(axis=1, stable=True).astype("int32"),
        "columns": columns,
        "weights": rng.integers(1, 5, m),
        "block_at": 0 * rng.integers(0, 1, m),
    }


def definite_matrices(seed: int, k: int = 3, d: int = 4) -> HostArrays:
    """Make matrices, one of them not positive definite, and right-hand sides."""
    rng = as_generator(seed)
    root = rng.normal(size=(k, d, d + 3))
    matrix = root @ root.transpose(0, 2, 1)
    matrix[1, 2, 2] = -1.0
    return {"matrix": matrix, "right": rng.normal(size=(k, d, 2))}


def box_problem(seed: int, n: int = 60, d: int = 3) -> HostArrays:
    """Make a small support vector machine with a column of ones, and a kernel matrix of its rows."""
    rng = as_generator(seed)
    x = rng.normal(size=(n, d))
    sign = 2.0 * (x[:, 0] + rng.normal(size=n) > 0) - 1.0
    rows = x @ rng.normal(size=(d, d))
    return {
        "rows": np.concat([rows, np.ones((n, 1))], axis=1),
        "sign": sign,
        "lower": (sign - 1.0) / 2.0,
        "upper": (sign + 1.0) / 2.0,
        "matrix": rows @ rows.T + n * np.eye(n),
        "kept": rng.permutation(n)[:7],
        "weights": rng.normal(size=7),
        "start": rng.normal(size=d + 1),
    }


def count_table(seed: int) -> HostArrays:
    """Make tables of class counts, some of them with empty branches or classes."""
    rng = as_generator(seed)
    counts = rng.integers(0, 40, (20, 3, 4))
    counts[0] = 0
    counts[1, 2] = 0
    counts[2, :, 1] = 0
    return {"counts": counts.astype("float64")}


def binned_rows(seed: int, n: int = 600) -> HostArrays:
    """Make binned rows of four nodes with classes and weights."""
    rng = as_generator(seed)
    return {
        "bins": rng.integers(0, 8, (5, n)).astype("uint8"),
        "codes": rng.integers(0, 3, n),
        "nodes": rng.integers(0, 4, n),
        "weights": rng.random(n),
    }


def two_row_sets(seed: int) -> HostArrays:
    """Make two batches of two sets of rows."""
    rng = as_generator(seed)
    return {"x": rng.normal(size=(2, 30, 5)), "z": rng.normal(size=(2, 20, 5))}


def labelled_rows(seed: int, n: int = 400, d: int = 5, k: int = 3) -> HostArrays:
    """Make rows of three classes, and the parameters of a gaussian for each."""
    rng = as_generator(seed)
    codes = rng.integers(0, k, n)
    root = rng.normal(size=(k, d, d + 3))
    return {
        "x": rng.normal(size=(n, d)) + 2.0 * codes[:, None],
        "codes": codes,
        "weights": rng.random(n),
        "mean": rng.normal(size=(k, d)),
        "var": rng.random((k, d)) + 0.5,
        "cov": root @ root.transpose(0, 2, 1) / d,
    }


def forest_nodes(seed: int, n_classes: int = 3) -> HostArrays:
    """Rows of three nodes, the first of which looks at groups of bins; weights up to 3."""
    rng = as_generator(seed)
    codes, weights = rng.integers(0, n_classes, 700), rng.integers(1, 4, 700)
    block = rng.permutation(700)
    counts = [
        [int(weights[part][codes[part] == c].sum()) for c in range(n_classes)]
        for part in (block[:600], block[600:640], block[640:])
    ]
    bins = rng.integers(0, 900, (700, 4)).astype("int16")
    bins[:, 0] = rng.permutation(700)
    return {
        "bins": bins.T.copy(),
        "entries": (block << 4) | (weights[block] << 2) | codes[block],
        "features": as_generator(seed).integers(0, 4, (3, 2)),
        "counts": rng.integers(0, 1, (3, n_classes)) + counts,
        "numbers": rng.integers(0, 2**32, (3, 2)),
        "positions": rng.integers(0, 10**6, 3600).cumsum(),
    }


def with_gaps(make: Callable[[int], HostArrays]) -> Callable[[int], HostArrays]:
    """Put NaN into a tenth of `x`."""

    def make_gaps(seed: int) -> HostArrays:
        made = make(seed)
        made["x"][as_generator(seed + 1).random(made["x"].shape) < 0.1] = float("nan")
        return made

    return make_gaps


def scored_rows(seed: int, n: int = 300) -> HostArrays:
    """Make binned rows with classes and the scores of three outputs."""
    rng = as_generator(seed)
    return {
        "scores": rng.integers(-(1 << 22), 1 << 22, (3, n)).astype("int32"),
        "codes": rng.integers(0, 3, n),
        "bins": rng.integers(0, 8, (4, n)).astype("uint8"),
        "order": rng.permutation(n),
    }
