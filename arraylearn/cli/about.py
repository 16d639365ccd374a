"""``demo``, ``info``, ``compile``, ``selftest``: which backends this machine has, and whether they work."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_commands"]


def add_commands(commands: Any, backend: argparse.ArgumentParser) -> None:
    """Add the commands to the parser's; `backend` holds the option of that name."""
    for name, run, parents, about in (
        ("demo", _demo, [backend], "train and judge every learner"),
        ("info", _info, [], "list the backends that work here, and why others do not"),
        (
            "compile",
            _compile,
            [],
            "compile the bodies for NumPy now, so that no first fit of a learner has to",
        ),
        ("selftest", _selftest, [backend], "compare a backend with NumPy here, kernel by kernel"),
    ):
        commands.add_parser(name, parents=parents, help=about).set_defaults(run=run)


def _demo(options: argparse.Namespace) -> int:
    from rich.console import Console

    from arraylearn.selftest.shown_learners import run_demo

    headings = ("learner", "data", "accuracy", "fit", "predict")
    table = _table(f"arraylearn on {options.backend or 'numpy'}", headings, n_left=2)
    for row in run_demo(options.backend):
        fit, predict = f"{row.fit_seconds * 1e3:.1f} ms", f"{row.predict_seconds * 1e3:.1f} ms"
        table.add_row(row.learner, row.data, f"{row.accuracy:.1%}", fit, predict)
    console = Console()
    console.print(table)
    console.print()
    return _info(options)


def _info(options: argparse.Namespace) -> int:
    from rich.console import Console

    from arraylearn._version import __version__
    from arraylearn.backend import backend_info, get_num_threads
    from arraylearn.backend.dispatch import describe_compiled

    headings = ("backend", "version", "works", "device, or what is missing")
    table = _table(f"arraylearn {__version__}: backends of this machine", headings)
    for entry in backend_info():
        note = entry.device if entry.works else f"{entry.reason}. {entry.remedy}."
        # plain text: a remedy such as arraylearn[torch] must not be read as markup
        table.add_row(entry.backend, entry.version or "-", "yes" if entry.works else "no", _plain(note or ""))
    console = Console()
    console.print(table)
    console.print(f"CPU threads: {get_num_threads()}")
    console.print(f"compiled bodies for NumPy: {describe_compiled()}", markup=False)
    return 0


def _compile(options: argparse.Namespace) -> int:
    import logging

    from rich.console import Console

    from arraylearn.selftest.warm_up import compile_bodies

    console, notices = Console(), logging.getLogger("arraylearn.compile")
    notices.disabled = True  # they would recommend this command
    try:
        with console.status("compiling ...") as status:
            seconds = compile_bodies(lambda name: status.update(f"compiled: {name} ..."))
    finally:
        notices.disabled = False
    console.print(
        f"compiled for {len(seconds)} learners in {sum(seconds.values()):.0f} s; Numba keeps the result"
    )
    return 0


def _selftest(options: argparse.Namespace) -> int:
    from rich.console import Console

    from arraylearn.selftest import run_selftest

    backend = options.backend or "auto"
    headings = ("case", "result", "difference", "syncs", "launches", "time")
    table = _table(f"arraylearn selftest on {backend}, beside NumPy", headings, n_left=2)
    outcomes = list(run_selftest(backend))
    for outcome in outcomes:
        counts = outcome.counts
        table.add_row(
            outcome.name,
            "pass" if outcome.passed else _plain(f"FAIL {outcome.message}"),
            f"{outcome.difference:.1e}",
            "-" if counts is None else str(counts.syncs),
            "-" if counts is None else str(counts.launches),
            f"{outcome.seconds * 1e3:.1f} ms",
        )
    failed = sum(not outcome.passed for outcome in outcomes)
    console = Console()
    console.print(table)
    console.print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _table(title: str, headings: tuple[str, ...], n_left: int = 4) -> Any:
    """Return an empty table whose first `n_left` columns hold text, and the others numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < n_left else "right", overflow="fold")
    return table


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
