"""A small table with its classes, and how one is read from text."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from arraylearn._typing import HostArray

__all__ = ["Dataset", "parse"]


@dataclass(frozen=True)
class Dataset:
    """A table with class labels.

    Attributes
    ----------
    name : str
        What ``load_*`` calls it.
    X : array (n, d)
        Floats, or objects where a column holds text.
    y : array (n,)
        Class labels.
    feature_names : tuple of str
        Names of the columns.
    target : str
        Name of the label.
    categorical_features : tuple of int
        Positions of the nominal columns.
    description : str
        What the rows are.
    validation : Dataset or None
        Further rows of the same kind, kept apart.

    Examples
    --------
    >>> from arraylearn.datasets import load_tennis
    >>> tennis = load_tennis()
    >>> tennis.X.shape, tennis.feature_names[0], tennis.X[0, 0]
    ((14, 4), 'outlook', 'sunny')
    """

    name: str
    X: HostArray
    y: HostArray
    feature_names: tuple[str, ...]
    target: str
    categorical_features: tuple[int, ...]
    description: str
    validation: Dataset | None = None

    def frame(self, library: str | None = None) -> Any:
        """Return columns and label as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            By default the first of these that is installed.

        Returns
        -------
        data frame
            Text for nominal columns, floats for the others; the label comes last.
        """
        columns = {
            name: self.X[:, j].tolist() if j in self.categorical_features else self.X[:, j].astype(np.float64)
            for j, name in enumerate(self.feature_names)
        }
        columns[self.target] = self.y.tolist()
        backend: Any = library or _installed_library()
        return nw.from_dict(columns, backend=backend).to_native()


def _installed_library() -> str:
    for library in ("pandas", "polars", "pyarrow"):
        if importlib.util.find_spec(library) is not None:
            return library
    raise ImportError("`frame` needs a data frame library: install pandas, polars or pyarrow.")


def parse(name: str, columns: str, text: str, description: str, *, separator: str | None = None) -> Dataset:
    """Read rows of text, one per line, the label last.

    Parameters
    ----------
    name, description : str
        Of the data set.
    columns : str
        Names separated by blanks; a numeric column ends in ``#``. The last one is the label.
    text : str
        The rows.
    separator : str, optional
        Between the values of a row; by default blanks.
    """
    names = columns.split()
    is_numeric = [label.endswith("#") for label in names]
    rows = [
        [_value(word, numeric) for word, numeric in zip(row.split(separator), is_numeric, strict=True)]
        for row in text.strip().splitlines()
    ]
    return _make(name, [label.rstrip("#") for label in names], is_numeric, rows, description)


def _value(word: str, is_numeric: bool) -> float | str:
    return float(word) if is_numeric else word.strip()


def _make(
    name: str, names: Sequence[str], is_numeric: Sequence[bool], rows: list[list[Any]], description: str
) -> Dataset:
    table = np.array([row[:-1] for row in rows], dtype=np.float64 if all(is_numeric[:-1]) else object)
    labels = np.array([row[-1] for row in rows])
    return Dataset(
        name=name,
        X=table,
        y=labels.astype(np.int64) if is_numeric[-1] else labels,
        feature_names=tuple(names[:-1]),
        target=names[-1],
        categorical_features=tuple(j for j, numeric in enumerate(is_numeric[:-1]) if not numeric),
        description=description,
    )
