"""A progress bar for rounds of training: how many, the loss, the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Advance", "show_progress"]

Advance = Callable[[float | None], None]


@contextmanager
def show_progress(label: str, total: int, verbose: int) -> Iterator[Advance | None]:
    """Yield a function to call after each round with its loss (or None); None if nothing is to be shown."""
    if not verbose:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = TextColumn("{task.fields[loss]}")
    with Progress(TextColumn(label), BarColumn(), MofNCompleteColumn(), shown, TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=total, loss="")

        def advance(loss: float | None) -> None:
            bar.update(task, advance=1, loss="" if loss is None else f"loss {loss:.5f}")

        yield advance
