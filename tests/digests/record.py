"""Write the expected digests anew, or show what one of them is the digest of.

``python -m tests.digests.record`` takes all of them; with names, such as ``tree/gini`` or ``boosting``, those
that begin so. ``--show tree/gini iris`` prints the lines, to compare them before and after a change.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from arraylearn.backend.dispatch import use_compiled
from tests.digests.case import modes_of, run
from tests.digests.cases import CASES
from tests.digests.sets import load

__all__ = ["EXPECTED", "read"]

EXPECTED = Path(__file__).parent / "expected.json"


def read() -> dict[str, Any]:
    """Return what is expected, by learner/option/set."""
    return json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


def take(names: list[str]) -> dict[str, Any]:
    """Take the digests of the cases whose names begin so; the first mode speaks for all."""
    found = {}
    for case in CASES.values():
        if not names or case.name.startswith(tuple(names)):
            with use_compiled(modes_of(case)[0]):
                found |= {f"{case.name}/{name}": _short(run(case, name)) for name in case.sets}
            print(case.name, flush=True)
    return found


def _short(found: Any) -> Any:
    """Keep ten digits of numbers: tolerances are wider."""
    if isinstance(found, dict):
        return {name: _short(part) for name, part in found.items()}
    if isinstance(found, list):
        return [float(f"{number:.10g}") for number in found]
    return found


def write(found: dict[str, Any]) -> None:
    """Write one line per case, in their order."""
    lines = [f"{json.dumps(key)}: {json.dumps(found[key], separators=(',', ':'))}" for key in sorted(found)]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def show(name: str, rows: str) -> None:
    """Print what is hashed."""
    case = CASES[name]
    with use_compiled(modes_of(case)[0]):
        found = case.result(load(rows))
    print(json.dumps(found, indent=1) if isinstance(found, dict) else "\n".join(found[0] + found[1]))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names; default: all cases")
    parser.add_argument("--show", nargs=2, metavar=("CASE", "SET"))
    chosen = parser.parse_args()
    if chosen.show:
        show(*chosen.show)
        return
    kept = read() if chosen.names else {}
    write(kept | take(chosen.names))


if __name__ == "__main__":
    main()
