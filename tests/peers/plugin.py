"""The pytest plugin: our classes in place of scikit-learn's, and the list of expected differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sklearn

from tests.peers import differences
from tests.peers.substitutes import Use, may_use, substitute

ROOT = Path(sklearn.__file__).parent
LISTED = pytest.StashKey[list[differences.Difference]]()
USE = pytest.StashKey[Use]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[LISTED] = differences.read()
    config.stash[USE] = substitute()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_ours(item: Any) -> bool:
        case = getattr(item, "callspec", None)
        return may_use(item.function, case.params.values() if case else ())

    config.hook.pytest_deselected(items=[item for item in items if not is_ours(item)])
    items[:] = filter(is_ours, items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[USE].forget()


def name_of(item: pytest.Item) -> str:
    """Return the test's name below the folder of scikit-learn."""
    return f"{item.path.relative_to(ROOT).as_posix()}::{item.nodeid.partition('::')[2]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Judge a test that used our classes by the list; leave out one that did not."""
    report = yield
    if report.when != "call" or report.skipped:
        return report
    if report.passed and not item.config.stash[USE].is_seen:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, "Skipped: uses no class of ours")
        return report
    test, has_passed = name_of(item), report.passed
    report.user_properties.append(("peers", (test, has_passed)))
    entry = differences.find(item.config.stash[LISTED], test)
    if entry and has_passed:
        report.outcome = "failed"
        report.longrepr = f"{test} passes: take it off the list ({entry.kind}: {entry.reason})"
    elif entry:
        report.outcome, report.wasxfail = "skipped", f"{entry.kind}: {entry.reason}"
    return report
