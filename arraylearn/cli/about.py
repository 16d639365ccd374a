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

    from arraylearn.bench.show import seconds_text, text_table
    from arraylearn.selftest.shown_learners import run_demo

    rows = [
        (
            row.learner,
            row.data,
            f"{row.accuracy:.1%}",
            *map(seconds_text, (row.fit_seconds, row.predict_seconds)),
        )
        for row in run_demo(options.backend)
    ]
    headings = ("learner", "data", "accuracy", "fit", "predict")
    Console().print(text_table(f"arraylearn on {options.backend or 'numpy'}", headings, rows), "")
    return _info(options)


def _info(options: argparse.Namespace) -> int:
    from rich.console import Console

    from arraylearn._version import __version__
    from arraylearn.backend import backend_info, get_num_threads
    from arraylearn.backend.dispatch import describe_compiled
    from arraylearn.bench.show import text_table

    rows = []
    for entry in backend_info():
        note = entry.device if entry.works else f"{entry.reason}. {entry.remedy}."
        rows.append((entry.backend, entry.version or "-", "yes" if entry.works else "no", note or ""))
    headings = ("backend", "version", "works", "device, or what is missing")
    console = Console()
    console.print(text_table(f"arraylearn {__version__}: backends of this machine", headings, rows))
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

    from arraylearn.bench.show import seconds_text, text_table
    from arraylearn.selftest import run_selftest

    backend = options.backend or "auto"
    outcomes = list(run_selftest(backend))
    rows = [
        (
            one.name,
            "pass" if one.passed else f"FAIL {one.message}",
            f"{one.difference:.1e}",
            "-" if one.counts is None else str(one.counts.syncs),
            "-" if one.counts is None else str(one.counts.launches),
            seconds_text(one.seconds),
        )
        for one in outcomes
    ]
    headings = ("case", "result", "difference", "syncs", "launches", "time")
    failed = sum(not one.passed for one in outcomes)
    console = Console()
    console.print(text_table(f"arraylearn selftest on {backend}, beside NumPy", headings, rows))
    console.print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0
