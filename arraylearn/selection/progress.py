"""A bar that shows how far the work is and how long it will take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["tracking"]


@contextmanager
def tracking(what: str, total: int, show: bool | None) -> Iterator[Callable[[], None]]:
    """Yield a function that moves the bar by one; `show` None: where the standard error is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    is_shown = console.is_terminal if show is None else show
    if not is_shown:
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=show is None) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
