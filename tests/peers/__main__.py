"""Run scikit-learn's own tests on our classes.

python -m tests.peers                 # judge by the list of expected differences
python -m tests.peers --write         # then take off what passes now
python -m tests.peers -n 2 -k svm     # other arguments are pytest's
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import pytest

from tests.peers import differences
from tests.peers.plugin import ROOT
from tests.peers.substitutes import TEST_FILES


class Results:
    """What each test that used our classes did."""

    def __init__(self) -> None:
        self.has_passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties).get("peers")
        if found:
            test, has_passed = found
            self.has_passed[test] = bool(has_passed)


def main(arguments: Sequence[str]) -> int:
    """Return the exit status."""
    chosen = [each for each in arguments if each != "--write"]
    is_whole = not any(each.startswith(("-k", "-m", "--lf")) or "::" in each for each in chosen)
    settings = ["-c", os.devnull, "--rootdir", str(ROOT.parent), "-p", "no:cacheprovider", "-q", "--tb=short"]
    results = Results()
    files = [str(ROOT / file) for file in TEST_FILES]
    status = int(pytest.main([*settings, "-p", "tests.peers.plugin", *chosen, *files], plugins=[results]))
    listed = differences.read()
    left = differences.unknown(listed, results.has_passed) if is_whole else []
    for test in left:
        print(f"listed, but no test of our classes: {test}")
    print(", ".join(f"{kind}: {n}" for kind, n in differences.counts(listed, results.has_passed).items()))
    if "--write" in arguments:
        if not is_whole:
            print("--write needs all tests")
            return 1
        differences.PATH.write_text(differences.text(differences.shrink(listed, results.has_passed)))
    return status or bool(left)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
