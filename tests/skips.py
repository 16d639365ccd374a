"""The skips that a session may have. The table is closed: any other skip, or more of one, fails the session.

A case that can tell nothing on a rung is no skip: ``@pytest.mark.rungs`` leaves it out. What remains is what
this machine lacks. Limits are upper ones, per rung ("no rung": tests of the host alone), so that any
selection of tests keeps them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.backends.rungs import EXCEPTIONS
from tests.reference_data import READERS

__all__ = ["DECLARED", "Declared", "count", "faults", "table"]

NO_RUNG = "no rung"


class Declared(NamedTuple):
    """Why tests may be skipped.

    Attributes
    ----------
    title : what the summary calls it
    pattern : what the reasons begin with, a regular expression
    most : the largest number on one rung
    in_ci : whether it may happen where everything has been installed (``CI`` in the environment)
    """

    title: str
    pattern: str
    most: float = math.inf
    in_ci: bool = False


DECLARED = (
    Declared(
        "no reference data",
        r"no \S+\.arff in ",
        most=sum(reader.n_cases for reader in READERS.values()),
        in_ci=True,
    ),
    Declared("package not installed", r"could not import '|not installed: "),
    Declared("rung not available", r"rung \w+: "),
    *(
        Declared(f"{subject} on {rung}", re.escape(f"{subject} on {rung}: "), in_ci=True)
        for subject, reasons in EXCEPTIONS.items()
        for rung in reasons
    ),
)


class Key(NamedTuple):
    """A group of skipped tests: those with one reason on one rung."""

    reason: str
    rung: str


def count(reports: Iterable[Any]) -> Counter[Key]:
    """Count pytest's reports of skipped tests by reason and rung."""
    return Counter(Key(_reason(report), _rung(report)) for report in reports)


def _reason(report: Any) -> str:
    place = report.longrepr
    told = place[2] if isinstance(place, tuple) else str(place)
    return told.removeprefix("Skipped: ")


def _rung(report: Any) -> str:
    properties = getattr(report, "user_properties", ())  # a file that is skipped as a whole has none
    rung: str = dict(properties).get("rung", NO_RUNG)
    return rung


def table(counts: Mapping[Key, int]) -> list[str]:
    """Lines of the summary, most frequent first."""
    lines = [f"{number:5} {key.rung:15} {key.reason}" for key, number in Counter(counts).most_common()]
    return [*lines, f"{sum(counts.values()):5} skipped in all"]


def faults(counts: Mapping[Key, int], *, is_ci: bool) -> list[str]:
    """What the table does not allow."""
    found = []
    totals: Counter[tuple[Declared, str]] = Counter()
    for key, number in counts.items():
        declared = next((each for each in DECLARED if re.match(each.pattern, key.reason)), None)
        if declared is None:
            found.append(f"skip not declared in tests/skips.py: {key.reason} ({key.rung}: {number})")
        else:
            totals[declared, key.rung] += number
    for (declared, rung), number in totals.items():
        if is_ci and not declared.in_ci:
            found.append(f"not allowed in CI: {declared.title} ({rung}: {number})")
        elif number > declared.most:
            found.append(f"too many skips: {declared.title} ({rung}: {number}, at most {declared.most})")
    return found
