"""The result of a cross-validation."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from arraylearn._typing import HostArray

__all__ = ["Report"]

FrameLibrary = Literal["pandas", "polars", "pyarrow"]


@dataclass(frozen=True, repr=False)
class Report:
    """The results of a cross-validation, and the classifier fitted on all rows.

    It prints as a table.

    Attributes
    ----------
    scores : dict of arrays
        For each metric its value on each fold (leave-one-out: on each row, or one value for all rows where a
        metric needs more than one).
    errors : array
        Share of wrong predictions, fold by fold.
    confusion : array (k, k)
        Number of test rows of class i (row) that were predicted as class j (column), over all folds.
    classes : array (k,)
        The classes, in the order of `confusion`.
    test_rows, predictions : list of arrays
        Which rows each fold was judged on, and the label predicted for each.
    train_sizes : list of int
        Training rows of each fold.
    seconds : float
        Time of all fits and predictions.
    classifier : estimator or None
        Fitted on all rows; None if that was not wanted or the work was interrupted.
    is_complete : bool
        Whether all folds were judged.
    """

    name: str
    scores: dict[str, HostArray]
    errors: HostArray
    confusion: HostArray
    classes: HostArray
    test_rows: list[HostArray] = field(repr=False)
    predictions: list[HostArray] = field(repr=False)
    train_sizes: list[int] = field(repr=False)
    seconds: float = 0.0
    classifier: Any = None
    is_complete: bool = True

    @property
    def mean(self) -> dict[str, float]:
        """Mean of each metric over the folds."""
        return {name: float(values.mean()) for name, values in self.scores.items()}

    @property
    def standard_error(self) -> dict[str, float]:
        """Standard error of each mean: the deviation of the folds over the root of their number."""
        return {name: _standard_error(values) for name, values in self.scores.items()}

    @property
    def error(self) -> float:
        """Share of wrong predictions, averaged over the folds."""
        return float(self.errors.mean())

    @property
    def error_standard_error(self) -> float:
        """Standard error of `error`."""
        return _standard_error(self.errors)

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return a data frame with a row per fold.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
            The library of the frame.
        """
        import narwhals.stable.v2 as nw

        columns = {
            "fold": list(range(len(self.test_rows))),
            "train_rows": list(self.train_sizes),
            "test_rows": [int(rows.shape[0]) for rows in self.test_rows],
            "error": self.errors.tolist(),
        }
        for name, values in self.scores.items():
            if values.shape[0] == len(self.test_rows):
                columns[name] = values.tolist()
        return nw.from_dict(columns, backend=backend).to_native()

    def confusion_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return the confusion matrix as a data frame: a row per true class, a column per predicted one."""
        import narwhals.stable.v2 as nw

        labels = [str(label) for label in self.classes.tolist()]
        columns = {"true": labels} | {label: self.confusion[:, j].tolist() for j, label in enumerate(labels)}
        return nw.from_dict(columns, backend=backend).to_native()

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        final = "none" if self.classifier is None else " ".join(str(self.classifier).split())
        return Group(self._summary_table(), self._confusion_table(), Text(f"  final classifier: {final}"))

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=120).print(self)
        return "\n".join(text.rstrip() for text in out.getvalue().splitlines()).strip("\n")

    __repr__ = __str__

    def _summary_table(self) -> Any:
        from rich import box
        from rich.table import Table

        unfinished = "" if self.is_complete else ", interrupted"
        n_folds = len(self.test_rows)
        title = f"{self.name}: {n_folds} folds in {self.seconds:.2g} s{unfinished}"
        table = Table(title=title, box=box.SIMPLE, show_footer=True, title_justify="left")
        n_tested = sum(int(rows.shape[0]) for rows in self.test_rows)
        table.add_column("fold", "mean ± s.e.", justify="left")
        table.add_column("train rows", justify="right")
        table.add_column("test rows", str(n_tested), justify="right")
        table.add_column("error", _shown(self.error, self.error_standard_error), justify="right")
        for name, values in self.scores.items():
            table.add_column(name, _shown(float(values.mean()), _standard_error(values)), justify="right")
        for fold in range(n_folds if n_folds <= 50 else 0):
            table.add_row(
                str(fold + 1),
                str(self.train_sizes[fold]),
                str(self.test_rows[fold].shape[0]),
                f"{self.errors[fold]:.4f}",
                *(f"{values[fold]:.4f}" if fold < values.shape[0] else "" for values in self.scores.values()),
            )
        return table

    def _confusion_table(self) -> Any:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE)
        table.add_column("true, predicted:")
        for label in self.classes.tolist():
            table.add_column(str(label), justify="right")
        for label, counts in zip(self.classes.tolist(), self.confusion.tolist(), strict=True):
            table.add_row(str(label), *map(str, counts))
        return table


def _standard_error(values: HostArray) -> float:
    n = values.shape[0]
    return float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan


def _shown(mean: float, standard_error: float) -> str:
    return f"{mean:.4f}" if math.isnan(standard_error) else f"{mean:.4f} ± {standard_error:.4f}"
