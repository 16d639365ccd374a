"""The command line: ``demo | info | compile | selftest | fit | predict | evaluate | tree | bench``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from arraylearn._version import __version__
from arraylearn.cli import about, bench, model_commands
from arraylearn.cli.exit_status import BriefParser, run_and_report

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    return run_and_report(lambda: int(options.run(options)), is_debug="debug" in options)


def _parser() -> argparse.ArgumentParser:
    parser = BriefParser(prog="arraylearn", description="The classical classifiers.")
    parser.add_argument("--version", action="version", version=f"arraylearn {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    backend = argparse.ArgumentParser(add_help=False)  # the option that several commands share
    backend.add_argument("--backend", help="numpy, torch, torch:cuda:0, cupy, cupy:1 or auto")
    about.add_commands(commands, backend)
    model_commands.add_commands(commands, backend)
    bench.add_commands(commands)
    return parser
