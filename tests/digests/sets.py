"""The rows that digests are taken on: made of whole numbers, so that they are the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from arraylearn import datasets

__all__ = ["BIG", "COMPLETE", "MISSING", "NOMINAL", "SCALED", "SMALL", "Rows", "load"]


class Rows(NamedTuple):
    """Training rows, and the rows to predict: the same and others between them."""

    X: Any
    y: Any
    weight: Any  # whole numbers, 0 among them
    probe: Any
    categorical: tuple[int, ...] | None = None  # nominal columns of plain arrays


def _rows(X: Any, y: Any, categorical: tuple[int, ...] | None = None, *, step: int = 4) -> Rows:
    """Train on the rows but each `step`-th, predict all; a few rows are all trained on."""
    row = np.arange(len(y))
    train = row if len(y) < 20 else row[row % step != step - 1]
    take = X.iloc if isinstance(X, pd.DataFrame) else X
    return Rows(take[train], np.asarray(y)[train], (train * 7 % 5).astype(float), X, categorical)


def _draw(seed: int, high: int, shape: Any) -> Any:
    return np.random.default_rng(seed).integers(high, size=shape)


def _noisy(label: Any, seed: int, n_classes: int, one_in: int) -> Any:
    """Give one row in so many another class."""
    change = _draw(seed, one_in, label.shape) == 0
    return np.where(change, (label + 1) % n_classes, label)


def _shipped(name: str, every: int = 1) -> Rows:
    found = getattr(datasets, f"load_{name}")()
    return _rows(found.X[::every], found.y[::every])


def _scaled(name: str) -> Rows:
    """Divide the columns by their largest value: what kernels need."""
    found = getattr(datasets, f"load_{name}")()
    return _rows(found.X / found.X.max(axis=0), found.y)


def _frame_of(name: str) -> Rows:
    found = getattr(datasets, f"load_{name}")()
    return _rows(found.frame("pandas").iloc[:, :-1], found.y)


def _ties() -> Rows:
    """Few values, two constant columns, two classes."""
    x = _draw(1, 4, (320, 6)).astype(float)
    x[:, [2, 5]] = 3.0
    return _rows(x, _noisy((x.sum(axis=1) > 11).astype(int), 2, 2, 8))


def _missing() -> Rows:
    """Numbers with missing values, in one column mostly; three classes as text."""
    x = _draw(3, 256, (420, 5)) / 8.0
    label = ((x[:, 0] + x[:, 1] - x[:, 2]) // 16).astype(int) % 3
    x[_draw(4, 6, x.shape) == 0] = np.nan
    x[_draw(5, 5, 420) > 0, 4] = np.nan
    return _rows(x, np.array(["low", "middle", "top"])[_noisy(label, 6, 3, 12)])


def _mixed() -> Rows:
    """A frame: unique ids, 300 categories, few categories, flags; missing values in both kinds."""
    n = 560
    key, colour, size, weight = (_draw(10 + i, high, n) for i, high in enumerate((300, 5, 400, 64), start=0))
    label = _noisy(((key % 7 < 3) ^ (colour == 2) ^ (size > 220)).astype(int), 20, 2, 9)
    colours = np.array(["red", "green", "blue", "black", None], dtype=object)[colour]
    sizes = size / 4.0
    sizes[_draw(21, 8, n) == 0] = np.nan
    frame = pd.DataFrame(
        {
            "id": np.arange(n) * 2.0,
            "key": [f"k{value:03d}" for value in key],
            "colour": colours,
            "size": sizes,
            "flag": _draw(22, 2, n) == 1,
            "grade": pd.Categorical.from_codes(_draw(23, 4, n) - 1, ["a", "b", "c"]),
            "weight": weight.astype(float),
        }
    )
    return _rows(frame, label)


def _single() -> Rows:
    x = _draw(30, 60, (200, 1)).astype(float)
    return _rows(x, _noisy((x[:, 0] // 15).astype(int) % 2, 31, 2, 7))


def _float32() -> Rows:
    x = (_draw(32, 500, (360, 5)) / 7.0).astype(np.float32)
    return _rows(x, _noisy((x[:, 0] // 20 + x[:, 3] // 30).astype(int) % 4, 33, 4, 10))


def _duplicates() -> Rows:
    """Forty rows, each many times and with both classes."""
    base = _draw(34, 30, (40, 4)).astype(float)
    row = _draw(35, 40, 300)
    return _rows(base[row], _noisy((base[row, 0] > 12).astype(int), 36, 2, 4))


def _ten_classes() -> Rows:
    """Codes of categories as numbers, missing ones among them; ten classes."""
    x = _draw(37, 40, (400, 6)).astype(float)
    x[:, 1] = _draw(38, 12, 400)
    x[:, 4] = _draw(39, 5, 400)
    label = (x[:, 1] + x[:, 0] // 8 + 2 * x[:, 4]).astype(int) % 10
    x[_draw(40, 15, x.shape) == 0] = np.nan
    return _rows(x, _noisy(label, 41, 10, 10), (1, 4))


def _waves() -> Rows:
    """More rows than whole kernel matrices are made for; two classes that overlap."""
    x = _draw(45, 256, (1600, 6)) / 256.0
    label = ((x[:, 0] * 3 + x[:, 1] * 2 + x[:, 2]) % 2 > 1).astype(int)
    return _rows(x, _noisy(label, 46, 2, 12))


def _big_numbers() -> Rows:
    """More values than any threshold asks for; three classes, ties in some columns, none missing."""
    n, d = 222_000, 20
    x = _draw(50, 1 << 16, (n, d)) / 64.0
    x[:, 3:8] = x[:, 3:8] // 32
    x[:, 8] = x[:, 8] // 256
    score = x[:, 0] + x[:, 3] * 24 - x[:, 9] + x[:, 8] * 96
    return _rows(x, _noisy((score // 512).astype(int) % 3, 51, 3, 10), step=24)


def _big_mixed() -> Rows:
    """As many values, of both kinds and with missing ones; two classes."""
    n = 222_000
    x = _draw(60, 1 << 12, (n, 24)) / 8.0
    for j, high in ((2, 6), (7, 40), (13, 3)):
        x[:, j] = _draw(61 + j, high, n)
    label = ((x[:, 0] > 200) ^ (x[:, 7] % 5 < 2) ^ (x[:, 4] + x[:, 5] > 700)).astype(int)
    is_missing = _draw(90, 20, x.shape) == 0
    x[is_missing] = np.nan
    return _rows(x, _noisy(label, 91, 2, 8), (2, 7, 13), step=24)


_MAKERS: dict[str, Callable[[], Rows]] = {
    "iris": lambda: _shipped("iris"),
    "wine": lambda: _shipped("wine"),
    "cancer": lambda: _shipped("breast_cancer"),
    "digits": lambda: _shipped("digits", 6),
    "tennis": lambda: _frame_of("tennis"),
    "hire": lambda: _frame_of("hire_numeric"),
    "ties": _ties,
    "missing": _missing,
    "mixed": _mixed,
    "single": _single,
    "float32": _float32,
    "duplicates": _duplicates,
    "ten_classes": _ten_classes,
    "iris_scaled": lambda: _scaled("iris"),
    "wine_scaled": lambda: _scaled("wine"),
    "cancer_scaled": lambda: _scaled("breast_cancer"),
    "waves": _waves,
    "big_numbers": _big_numbers,
    "big_mixed": _big_mixed,
}
COMPLETE = ("iris", "wine", "cancer", "digits", "ties", "single", "float32", "duplicates")
NOMINAL = ("tennis", "hire", "mixed", "ten_classes")
MISSING = ("missing", "mixed", "ten_classes")
SMALL = tuple(_MAKERS)[:13]
SCALED = ("iris_scaled", "wine_scaled", "cancer_scaled")
BIG = ("big_numbers", "big_mixed")


@cache
def load(name: str) -> Rows:
    """Return the rows of that name."""
    return _MAKERS[name]()
