"""Fitted probabilities as tables: printed as in a text book, or as data frames."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from arraylearn._typing import HostArray

__all__ = ["FittedTables", "GridTable", "TableMaker"]

_FRAME_LIBRARIES: tuple[Literal["pandas", "polars", "pyarrow"], ...] = ("pandas", "polars", "pyarrow")


class GridTable(NamedTuple):
    """One table as it is printed: a caption, a head and rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __str__(self) -> str:
        cells = [[_shown(cell) for cell in row] for row in (self.head, *self.rows)]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.head))]
        lines = [
            "  ".join(
                cell.ljust(width) if j == 0 else cell.rjust(width)
                for j, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        rule = "-" * max(len(text) for text in lines)
        return "\n".join([self.caption, lines[0], rule, *lines[1:]])


@dataclass(eq=False, repr=False)
class FittedTables:
    """The fitted probabilities of a Bayes classifier.

    ``print`` shows them as a text book does. Each of the following is a dictionary of columns, made for any
    data frame library; `to_frames` makes the frames.

    Attributes
    ----------
    priors : dict
        Columns ``class, prior``.
    nominal : dict
        Columns ``attribute, value, class, probability``: P(attribute = value | class).
    numeric : dict
        Columns ``attribute, class, mean, variance``.
    covariance : dict
        Columns ``class, attribute, other, covariance``; without rows where attributes are independent.
    """

    grids: tuple[GridTable, ...]  # as they are printed
    priors: dict[str, list[Any]]
    nominal: dict[str, list[Any]]
    numeric: dict[str, list[Any]]
    covariance: dict[str, list[Any]]

    def to_frames(self, library: Literal["pandas", "polars", "pyarrow"] | None = None) -> dict[str, Any]:
        """Return the tables as data frames.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            Default: the first of these that is installed.

        Returns
        -------
        dict
            Data frames under the names ``priors``, ``nominal``, ``numeric`` and ``covariance``.
        """
        import narwhals.stable.v2 as nw

        if library is None:
            found = [name for name in _FRAME_LIBRARIES if importlib.util.find_spec(name)]
            if not found:
                raise ImportError(
                    f"no data frame library is installed; install one of {', '.join(_FRAME_LIBRARIES)}, or "
                    "use the dictionaries of columns: tables.nominal, tables.numeric, ..."
                )
            library = found[0]
        if library not in _FRAME_LIBRARIES:
            raise ValueError(
                f"`library` must be one of {', '.join(map(repr, _FRAME_LIBRARIES))} or None; got {library!r}."
            )
        return {
            name: nw.from_dict(_of_one_kind(getattr(self, name)), backend=library).to_native()
            for name in ("priors", "nominal", "numeric", "covariance")
        }

    def __str__(self) -> str:
        return "\n\n".join(str(grid) for grid in self.grids)

    def __repr__(self) -> str:
        return str(self)


class TableMaker:
    """Collects the tables of a classifier, attribute by attribute."""

    def __init__(self, target: str, classes: Sequence[Any], prior: HostArray) -> None:
        self.target = target
        self.classes = list(classes)
        self.head = tuple(map(str, classes))
        shares = prior.tolist()
        self.grids = [GridTable(f"P({target})", ("", *self.head), (("", *shares),))]
        self.priors: dict[str, list[Any]] = {"class": self.classes, "prior": shares}
        self.nominal: dict[str, list[Any]] = {"attribute": [], "value": [], "class": [], "probability": []}
        self.numeric: dict[str, list[Any]] = {"attribute": [], "class": [], "mean": [], "variance": []}
        self.covariance: dict[str, list[Any]] = {"class": [], "attribute": [], "other": [], "covariance": []}

    def add_nominal(self, name: str, values: Sequence[Any], probabilities: HostArray) -> None:
        """Add P(attribute = value | class) (values, classes)."""
        rows = probabilities.tolist()
        lines = tuple((value, *row) for value, row in zip(values, rows, strict=True))
        self.grids.append(GridTable(f"P({name} | {self.target})", (name, *self.head), lines))
        for value, row in zip(values, rows, strict=True):
            for label, probability in zip(self.classes, row, strict=True):
                _append(self.nominal, name, value, label, probability)

    def add_normal(self, name: str, mean: HostArray, var: HostArray) -> None:
        """Add mean and variance (classes,) of a numeric attribute."""
        lines = (("mean", *mean.tolist()), ("variance", *var.tolist()))
        self.grids.append(GridTable(f"P({name} | {self.target})", (name, *self.head), lines))
        for label, mu, sigma in zip(self.classes, mean.tolist(), var.tolist(), strict=True):
            _append(self.numeric, name, label, mu, sigma)

    def add_covariance(self, label: Any, names: Sequence[str], mean: HostArray, matrix: HostArray) -> None:
        """Add mean (d,) and covariance (d, d) of one class."""
        rows = matrix.tolist()
        lines = [("mean", *mean.tolist())]
        lines += [(f"cov {name}", *row) for name, row in zip(names, rows, strict=True)]
        caption = f"P({', '.join(names)} | {self.target} = {label})"
        self.grids.append(GridTable(caption, ("", *names), tuple(lines)))
        for j, (name, row) in enumerate(zip(names, rows, strict=True)):
            _append(self.numeric, name, label, float(mean[j]), row[j])
            for other, entry in zip(names, row, strict=True):
                _append(self.covariance, label, name, other, entry)

    def make(self) -> FittedTables:
        """Return what was added."""
        return FittedTables(tuple(self.grids), self.priors, self.nominal, self.numeric, self.covariance)


def _append(columns: dict[str, list[Any]], *row: Any) -> None:
    for column, cell in zip(columns.values(), row, strict=True):
        column.append(cell)


def _shown(cell: Any) -> str:
    if not isinstance(cell, float):
        return str(cell)
    if cell == 0 or 1e-3 <= abs(cell) < 1e6:
        return f"{cell:.4f}".rstrip("0").rstrip(".") if abs(cell) < 10 else f"{cell:.2f}"
    return f"{cell:.3g}"


def _of_one_kind(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Turn columns of several kinds of labels into text, which every data frame library can hold."""
    return {
        name: values if len({type(value) for value in values}) <= 1 else [str(value) for value in values]
        for name, values in columns.items()
    }
