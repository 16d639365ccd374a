"""Generated rows to learn from, the same on every machine: training rows, and new ones to judge by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arraylearn._typing import HostArray

__all__ = [
    "Shape",
    "TrainTest",
    "curved",
    "interval_rules",
    "known_set",
    "machine_rows",
    "mixed_categories",
    "mixed_rows",
    "n_new_rows",
    "noise",
    "nominal_rows",
    "nominal_rules",
    "normal",
]


class Shape(NamedTuple):
    """The size of a training table."""

    n_rows: int
    n_columns: int
    n_classes: int = 2

    def __str__(self) -> str:
        return f"{self.n_rows} x {self.n_columns}, {self.n_classes} classes"


class TrainTest(NamedTuple):
    """Rows to learn from and rows to be judged by."""

    X: HostArray
    y: HostArray
    X_new: HostArray
    y_new: HostArray


def _split(X: HostArray, y: HostArray, n: int) -> TrainTest:
    return TrainTest(X[:n], y[:n], X[n:], y[n:])


def n_new_rows(n: int) -> int:
    """Return how many new rows are drawn beside `n` to learn from."""
    return max(1000, min(n, 50_000))


def curved(
    shape: Shape, *, n_values: int | None = None, n_new: int | None = None, seed: int = 0
) -> TrainTest:
    """Draw rows with a curved boundary in half of the columns and a tenth of the labels at random.

    `n_values` rounds the columns to about so many distinct values.
    """
    rng = np.random.default_rng(seed)
    n, d, k = shape
    total = n + (n_new_rows(n) if n_new is None else n_new)
    X = rng.standard_normal((total, d), dtype=np.float32)
    if n_values is not None:
        X = np.round(X * n_values / 6).clip(-n_values // 2, n_values // 2).astype(np.float32)
    score = np.zeros((total, k), dtype=np.float32)
    half = min(d, max(4, d // 2))
    for c in range(k):
        for _ in range(6):
            a, b = rng.integers(0, half, 2)
            wave = np.sin(rng.uniform(1, 2) * X[:, a] + rng.standard_normal())
            score[:, c] += rng.standard_normal() * wave * (1 + X[:, b] * rng.uniform(-1, 1))
        score[:, c] += 0.3 * X[:, :half] @ rng.standard_normal(half).astype(np.float32)
    y = score.argmax(axis=1)
    is_noise = rng.random(total) < 0.1
    y[is_noise] = rng.integers(0, k, int(is_noise.sum()))
    return _split(X, y, n)


def normal(shape: Shape, *, dtype: str = "float64") -> TrainTest:
    """Draw normal columns whose means depend on the class."""
    rng = np.random.default_rng(0)
    n, d, k = shape
    total = n + n_new_rows(n)
    y = rng.integers(0, k, total)
    X = rng.standard_normal((total, d), dtype=np.float32).astype(dtype)
    X += 0.3 * rng.normal(size=(k, d)).astype(dtype)[y]
    return _split(X, y, n)


def nominal_rows(shape: Shape) -> TrainTest:
    """Draw columns of eight values, a fifth of which depend on the class."""
    rng = np.random.default_rng(0)
    n, d, k = shape
    total = n + n_new_rows(n)
    y = rng.integers(0, k, total)
    X = rng.integers(0, 8, (total, d))
    informative = max(1, d // 5)
    is_class = rng.random((total, informative)) < 0.3
    X[:, :informative] = np.where(is_class, y[:, None] % 8, X[:, :informative])
    return _split(X, y, n)


def mixed_rows(shape: Shape) -> TrainTest:
    """Draw `curved` rows, the first half of the columns cut into categories, 5 % of all values missing."""
    X, y, X_new, y_new = curved(shape)
    rng = np.random.default_rng(1)
    for rows in (X, X_new):
        for j in range(shape.n_columns // 2):
            rows[:, j] = np.floor((rows[:, j].clip(-2.99, 2.99) + 3) * (j + 2) / 6)
        rows[rng.random(rows.shape) < 0.05] = np.nan
    return TrainTest(X, y, X_new, y_new)


def mixed_categories(shape: Shape) -> TrainTest:
    """Draw rows whose first half of columns has 2 to 1,000 categories, 5 % of all values missing."""
    rng = np.random.default_rng(0)
    total, n_nominal = shape.n_rows + n_new_rows(shape.n_rows), shape.n_columns // 2
    X = rng.normal(size=(total, shape.n_columns))
    curve = X[:, n_nominal] - X[:, -1] * X[:, -2]
    for j, size in enumerate(np.geomspace(2, 1000, n_nominal).round().astype(int)):
        X[:, j] = rng.choice(size, total, p=rng.dirichlet(np.full(size, 2.0)))
        curve += rng.normal(size=size)[X[:, j].astype(int)] * 0.7
    y = np.searchsorted(np.quantile(curve, np.arange(1, shape.n_classes) / shape.n_classes), curve)
    y = np.where(rng.random(total) < 0.1, rng.integers(0, shape.n_classes, total), y)
    X[rng.random(X.shape) < 0.05] = np.nan
    return _split(X, y, shape.n_rows)


def known_set(shape: Shape) -> TrainTest:
    """Split the set of scikit-learn's that has this many columns: iris, wine, breast cancer or digits."""
    from sklearn import datasets

    load = {4: "iris", 13: "wine", 30: "breast_cancer", 64: "digits"}[shape.n_columns]
    X, y = getattr(datasets, f"load_{load}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return _split(X[order], y[order], shape.n_rows)


def noise(shape: Shape) -> TrainTest:
    """Draw labels that are independent of the columns, which gives the largest trees."""
    rng = np.random.default_rng(0)
    total = shape.n_rows + 1000
    X = rng.standard_normal((total, shape.n_columns))
    return _split(X, rng.integers(0, shape.n_classes, total), shape.n_rows)


def interval_rules(shape: Shape) -> TrainTest:
    """Draw rows of two rules and an oblique border, with 5 % of the labels turned."""
    rng = np.random.default_rng(0)
    total = shape.n_rows + n_new_rows(shape.n_rows)
    X = rng.normal(size=(total, shape.n_columns))
    y = ((X[:, 0] > 0.3) & (X[:, 1] < 0.5)) | ((X[:, 2] > 1) & (X[:, 3] < 0) & (X[:, 4] > -0.5))
    y |= X[:, 5] + X[:, 6] > 2.5
    return _split(X, (y ^ (rng.random(total) < 0.05)).astype(int), shape.n_rows)


def nominal_rules(shape: Shape) -> TrainTest:
    """Draw columns of four values and a class of three rules of two to three values each, 2 % turned."""
    rng = np.random.default_rng(0)
    total = shape.n_rows + n_new_rows(shape.n_rows)
    X = rng.integers(0, 4, (total, shape.n_columns))
    y = (X[:, 0] == 1) & (X[:, 1] == 2)
    y |= (X[:, 2] == 0) & (X[:, 3] == 3) & (X[:, 4] != 1)
    y |= (X[:, 5] == 2) & (X[:, 6] == 2)
    return _split(X, (y ^ (rng.random(total) < 0.02)).astype(int), shape.n_rows)


def machine_rows(shape: Shape, *, kind: str = "clusters") -> TrainTest:
    """Draw rows for support vector machines, every column with mean 0 and variance 1.

    "clusters": overlapping clusters; "moons": two moons in columns of noise; "one-hot": ten numbers and a
    category of as many values as there are other columns, a fifth of the labels at random.
    """
    from sklearn.datasets import make_classification, make_moons

    rng = np.random.default_rng(0)
    n, d, k = shape
    total = n + n_new_rows(n)
    if kind == "moons":
        X, y = make_moons(total, noise=0.3, random_state=0)
        X = np.concatenate([X, 0.3 * rng.standard_normal((total, d - 2))], axis=1)
    elif kind == "one-hot":
        z = rng.standard_normal((total, 10))
        category = rng.integers(0, d - 10, total)
        f = np.sin(1.5 * z[:, 0]) + 0.5 * z[:, 1] * z[:, 2] + 0.7 * rng.standard_normal(d - 10)[category]
        y = np.where(rng.random(total) < 0.2, rng.integers(0, 2, total), f > np.median(f))
        X = np.concatenate([z, np.eye(d - 10)[category]], axis=1)
    else:
        X, y = make_classification(
            total,
            d,
            n_informative=d // 2,
            n_redundant=d // 5,
            n_classes=k,
            n_clusters_per_class=3,
            class_sep=0.8,
            flip_y=0.05,
            random_state=0,
        )
    X = X - X.mean(axis=0)
    spread = X.std(axis=0)
    return _split(X / np.where(spread > 0, spread, 1.0), y, n)
