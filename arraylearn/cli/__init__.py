"""The command line: ``demo | info | compile | selftest | fit | predict | evaluate | tree | bench``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from arraylearn.cli import about, bench, learn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    from arraylearn.backend import BackendUnavailableError

    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (BackendUnavailableError, ValueError, OSError) as error:
        print(f"arraylearn: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="arraylearn", description="The classical classifiers.")
    commands = parser.add_subparsers(required=True, metavar="command")
    about.add_commands(commands)
    learn.add_commands(commands)
    bench.add_commands(commands)
    return parser
