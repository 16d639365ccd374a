"""A progress bar on the standard error, and the warning before work that takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from arraylearn.backend.errors import LongRunWarning, warn_caller
from arraylearn.backend.spinner import only_one

__all__ = ["LONG_RUN", "Advance", "advance_nothing", "show_progress", "warn_of_cost"]

# Estimated seconds from which on a warning comes before the work.
LONG_RUN = 120.0


class Advance(Protocol):
    """Move the bar by one step, and show the measure if there is one."""

    def __call__(self, measured: float | None = None) -> None:
        """Move by one step."""


@contextmanager
def show_progress(
    label: str, total: int | None, show: bool | int | None, *, measure: str = "loss"
) -> Iterator[Advance]:
    """Show a bar and yield the function to call after each step; the bar shows the value of `measure`.

    `total` None: the number of steps is not known. `show` None: only on a terminal, and the bar disappears at
    the end.
    """
    if show is not None and not show:
        yield advance_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if show is None and not console.is_terminal:
        yield advance_nothing
        return
    measured = TextColumn("{task.fields[measured]}")
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), measured, TimeRemainingColumn())
    with only_one(), Progress(*columns, console=console, transient=show is None) as bar:
        task = bar.add_task(label, total=total, measured="")

        def advance(measured: float | None = None) -> None:
            bar.update(task, advance=1, measured="" if measured is None else f"{measure} {measured:.5f}")

        yield advance


def advance_nothing(measured: float | None = None) -> None:
    """Stand in for the function of a bar that is not shown."""


def warn_of_cost(learner: str, seconds: float, remedy: str) -> None:
    """Warn, before a fit of `LONG_RUN` seconds or more begins, what it takes by an estimate for one core."""
    text = f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.0f} hours"
    warn_caller(
        f"{learner} will take about {text} on these rows, by a rough estimate for one core. {remedy}",
        LongRunWarning,
    )
