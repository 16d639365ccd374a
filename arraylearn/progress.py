"""A progress bar on the standard error: how many steps are done, the loss, the time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Advance", "show_progress"]


class Advance(Protocol):
    """Move the bar by one step, and show a loss if there is one."""

    def __call__(self, loss: float | None = None) -> None:
        """Move by one step."""


@contextmanager
def show_progress(label: str, total: int, show: bool | int | None) -> Iterator[Advance]:
    """Show a bar and yield the function to call after each step.

    `show` None: only on a terminal, and the bar disappears at the end.
    """
    if show is not None and not show:
        yield _advance_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if show is None and not console.is_terminal:
        yield _advance_nothing
        return
    loss_column = TextColumn("{task.fields[loss]}")
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), loss_column, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=show is None) as bar:
        task = bar.add_task(label, total=total, loss="")

        def advance(loss: float | None = None) -> None:
            bar.update(task, advance=1, loss="" if loss is None else f"loss {loss:.5f}")

        yield advance


def _advance_nothing(loss: float | None = None) -> None:
    """Stand in for the function of a bar that is not shown."""
