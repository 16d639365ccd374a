"""A small table with its classes, and how one is read from text."""

from __future__ import annotations

import importlib.util
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
        known = [library] if library else ["pandas", "polars", "pyarrow"]
        backend: Any = next((one for one in known if importlib.util.find_spec(one) is not None), library)
        if backend is None:
            raise ImportError("`frame` needs a data frame library: install pandas, polars or pyarrow.")
        return nw.from_dict(columns, backend=backend).to_native()


def parse(name: str, columns: str, text: str, description: str, *, separator: str | None = None) -> Dataset:
    """Read rows from lines of text, the label last; values are separated by blanks or the `separator`.

    The names of the `columns` are separated by blanks; that of a numeric column ends in ``#``.
    """
    names = columns.split()
    is_numeric = [label.endswith("#") for label in names]
    rows = [
        [float(word) if numeric else word.strip() for word, numeric in zip(words, is_numeric, strict=True)]
        for words in (row.split(separator) for row in text.strip().splitlines())
    ]
    labels = np.array([row[-1] for row in rows])
    *features, target = (label.rstrip("#") for label in names)
    return Dataset(
        name=name,
        X=np.array([row[:-1] for row in rows], dtype=np.float64 if all(is_numeric[:-1]) else object),
        y=labels.astype(np.int64) if is_numeric[-1] else labels,
        feature_names=tuple(features),
        target=target,
        categorical_features=tuple(j for j, numeric in enumerate(is_numeric[:-1]) if not numeric),
        description=description,
    )
