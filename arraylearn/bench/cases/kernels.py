"""The array kernels beside a bare matrix product or bincount of the same shape, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from arraylearn import kernels
from arraylearn.backend.namespace import Place, from_host
from arraylearn.bench.case import Case, Race, Run, Size, shapes_of
from arraylearn.bench.data import Shape
from arraylearn.gaussian import log_density
from arraylearn.tree import class_histogram

__all__ = ["CASES"]

Prepare = Callable[[Shape, int], Race]

_DTYPES = ("float32", "float64")


def _gram(dtype: str) -> Prepare:
    def prepare(shape: Shape, n_threads: int) -> Race:
        x = np.random.default_rng(0).standard_normal((shape.n_rows, shape.n_columns)).astype(dtype)
        z = x.copy()  # a product with its own transpose is another, slower routine of NumPy's

        def ours(place: Place) -> Run:
            there = from_host(x, place)
            return lambda: kernels.gram(there, gamma=0.01)

        return Race(ours, {"matmul": lambda: lambda: x @ z.T}, None)

    return prepare


def _density(dtype: str) -> Prepare:
    def prepare(shape: Shape, n_threads: int) -> Race:
        rng = np.random.default_rng(0)
        n, d, k = shape
        root = rng.standard_normal((k, d, 2 * d))
        x, mean = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((k, d)).astype(dtype)
        cov = (root @ root.transpose(0, 2, 1) / d).astype(dtype)
        maps = rng.standard_normal((d, k * d)).astype(dtype)

        def ours(place: Place) -> Run:
            arrays = [from_host(array, place) for array in (x, mean, cov)]
            return lambda: log_density(*arrays)

        return Race(ours, {"matmul": lambda: lambda: x @ maps}, None)

    return prepare


def _histogram(n_bins: int) -> Prepare:
    def prepare(shape: Shape, n_threads: int) -> Race:
        rng = np.random.default_rng(0)
        n, d, k = shape
        bins, codes = rng.integers(0, n_bins, (d, n)).astype(np.uint8), rng.integers(0, k, n)

        def ours(place: Place) -> Run:
            b, c = from_host(bins, place), from_host(codes, place)
            return lambda: class_histogram(b, c, n_bins, k)

        def bare() -> Any:
            base = codes * n_bins
            return [np.bincount(base + column, minlength=n_bins * k) for column in bins]

        return Race(ours, {"bincount": lambda: bare}, None)

    return prepare


def _case(name: str, bar: str, yardstick: str, prepare: Prepare, shapes: dict[Size, Shape]) -> Case:
    return Case("kernels", name, (bar,), shapes, (yardstick,), prepare, quality="")


_SQUARE = shapes_of(2048, 4096, 8192, 100, 1)
_TALL = partial(shapes_of, 100_000, 300_000, 1_000_000, 20)

CASES = [
    *(_case(f"gaussian gram, {t}", "gram matrix", "matmul", _gram(t), _SQUARE) for t in _DTYPES),
    *(_case(f"log density, {t}", "log density", "matmul", _density(t), _TALL(5)) for t in _DTYPES),
    _case("class histogram, 255 bins", "histogram", "bincount", _histogram(255), _TALL(2)),
]
