"""The list of expected differences: read, matched with results, written."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["KINDS", "PATH", "Difference", "counts", "find", "read", "shrink", "text", "unknown"]

PATH = Path(__file__).with_name("differences.toml")
KINDS = {
    "by design": "what we do otherwise on purpose",
    "missing": "a feature that we do not have",
    "bug": "what is wrong, and to be mended",
}
_HEAD = """\
# Where scikit-learn's own tests do not pass on our classes, and why. The list only shrinks: a test that
# passes although it is listed fails the session. `python -m tests.peers --write` removes such entries.
# An entry without [...] stands for all cases of a test.
"""


@dataclass(frozen=True)
class Difference:
    """Tests that fail for one reason of one kind (see `KINDS`)."""

    kind: str
    reason: str
    tests: tuple[str, ...]


def read(path: Path = PATH) -> list[Difference]:
    """Read the list; refuse kinds that are not there, empty reasons and tests listed twice."""
    found = [
        Difference(entry["kind"], entry["reason"], tuple(entry["tests"]))
        for entry in tomllib.loads(path.read_text()).get("difference", [])
    ]
    for entry in found:
        if entry.kind not in KINDS or not entry.reason:
            raise ValueError(f"kind must be one of {list(KINDS)}, with a reason; got {entry}.")
    times = Counter(test for entry in found for test in entry.tests)
    if twice := [test for test, n in times.items() if n > 1]:
        raise ValueError(f"A test must be listed once; got several times: {twice}.")
    return found


def find(differences: Iterable[Difference], test: str) -> Difference | None:
    """Return the entry of a test, by its whole name or by that before the brackets."""
    names = (test, _without_case(test))
    return next((entry for name in names for entry in differences if name in entry.tests), None)


def _without_case(test: str) -> str:
    return test.partition("[")[0]


def shrink(differences: Iterable[Difference], results: Mapping[str, bool]) -> list[Difference]:
    """Keep what still fails: `results` maps the tests that used our classes to whether they passed.

    An entry for all cases of a test, some of which pass now, becomes one entry for each of the others.
    """
    failing = [test for test, has_passed in results.items() if not has_passed]
    passing = {test for test, has_passed in results.items() if has_passed}
    passing |= {_without_case(test) for test in passing}
    kept = []
    for entry in differences:
        tests: list[str] = []
        for listed in entry.tests:
            cases = [test for test in failing if listed in (test, _without_case(test))]
            tests += cases if listed in passing else [listed] if cases else []
        if tests:
            kept.append(Difference(entry.kind, entry.reason, tuple(sorted(tests))))
    return kept


def unknown(differences: Iterable[Difference], tests: Iterable[str]) -> list[str]:
    """Return the entries that stand for no test that used our classes."""
    names = {name for test in tests for name in (test, _without_case(test))}
    return [test for entry in differences for test in entry.tests if test not in names]


def counts(differences: Iterable[Difference], results: Mapping[str, bool]) -> dict[str, int]:
    """Return how many tests pass, and how many differ in each kind."""
    found = Counter({"pass": 0, **dict.fromkeys(KINDS, 0)})
    listed = list(differences)
    for test, has_passed in results.items():
        entry = find(listed, test)
        found["pass" if has_passed else entry.kind if entry else "not listed"] += 1
    return dict(found)


def text(differences: Iterable[Difference]) -> str:
    """Return the list as it is written: by kind, the most frequent reason first."""
    kinds = list(KINDS)
    order = sorted(differences, key=lambda each: (kinds.index(each.kind), -len(each.tests), each.reason))
    parts = [_HEAD]
    for entry in order:
        lines = ["[[difference]]", f'kind = "{entry.kind}"', f'reason = "{entry.reason}"', "tests = ["]
        lines += [f"    '{test}'," for test in sorted(entry.tests)]
        parts.append("\n".join([*lines, "]"]) + "\n")
    return "\n".join(parts)
