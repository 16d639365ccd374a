"""Fixtures that run a test on every selected rung of the ladder; see tests/backends/README.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import skips
from tests.backends import rungs
from tests.backends.rungs import Rung

SELECTED = pytest.StashKey[tuple[Rung, ...]]()
# Files that cannot be imported, or prove nothing, where none of these rungs is selected.
NEEDS_RUNG = {
    "tests/backends/selftests/test_cupy_on_cpu.py": ("cupy", "cupy_nvrtc"),
    "tests/backends/selftests/test_torch_fake_cuda.py": ("fake_cuda",),
    "tests/boosting/test_compiled_boosting.py": ("compiled",),
}

# a rung stays on for all examples of a test, which is what `function_scoped_fixture` warns about
hypothesis.settings.register_profile(
    "local", deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("local"), derandomize=True, database=None, print_blob=True
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rungs",
        default=",".join(rungs.DEFAULT),
        help=f"comma-separated rungs to test on, of {', '.join(rungs.RUNGS)} (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[SELECTED] = rungs.select(config.getoption("--rungs"))
    except ValueError as error:
        raise pytest.UsageError(f"--rungs: {error}") from None
    # the other rungs prove NumPy's own bodies, whether Numba is installed or not
    os.environ.setdefault("ARRAYLEARN_COMPILED", "never")
    for rung in config.stash[SELECTED]:
        rung.prepare()  # the emulator must be in place before a test module imports cupy


def pytest_report_header(config: pytest.Config) -> str:
    return "rungs: " + ", ".join(rung.name for rung in config.stash[SELECTED])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    path = _path(config, collection_path)
    return True if path in NEEDS_RUNG and not _is_selected(config, NEEDS_RUNG[path]) else None


def _path(config: pytest.Config, path: Path) -> str:
    return path.relative_to(config.rootpath).as_posix()


def _is_selected(config: pytest.Config, names: Iterable[str]) -> bool:
    return any(rung.name in names for rung in config.stash[SELECTED])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cases that can tell something on their rung; note the rung in the reports."""
    for item in items:
        if here := _rung_of(item):
            item.user_properties.append(("rung", here.name))
    items[:] = [item for item in items if _has_meaning(config, item)]


def _rung_of(item: pytest.Item) -> Rung | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("rung")


def _has_meaning(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether the test's rung, or for a test without one any selected rung, is as its markers ask.

    A test without a rung says the same in every session: it runs where NumPy is selected, unless its markers
    or `NEEDS_RUNG` ask for another rung.
    """
    here = _rung_of(item)
    wanted = [rungs.named(*marker.args) for marker in item.iter_markers("rungs")]
    if here is None and not wanted and _path(config, item.path) not in NEEDS_RUNG:
        wanted = [("numpy",)]
    return all(_is_selected(config, names) if here is None else here.name in names for names in wanted)


def pytest_sessionfinish(session: pytest.Session) -> None:
    is_worker = hasattr(session.config, "workerinput")
    if not is_worker and session.exitstatus == pytest.ExitCode.OK and _faults(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.section("skipped tests by reason and rung")
    for line in skips.table(skips.count(_skipped(config))):
        terminalreporter.write_line(line)
    for line in _faults(config):
        terminalreporter.write_line(line, red=True)


def _skipped(config: pytest.Config) -> list[Any]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter else []


def _faults(config: pytest.Config) -> list[str]:
    return skips.faults(skips.count(_skipped(config)), is_ci=bool(os.environ.get("CI")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rung" not in metafunc.fixturenames:
        return
    selected = metafunc.config.stash[SELECTED]
    if "float_dtype_name" not in metafunc.fixturenames:
        metafunc.parametrize("rung", selected, indirect=True, ids=lambda rung: rung.name)
        return
    pairs = [(rung, name) for rung in selected for name in rung.float_dtypes]
    ids = [f"{rung.name}-{name}" for rung, name in pairs]
    metafunc.parametrize(("rung", "float_dtype_name"), pairs, indirect=True, ids=ids)


@pytest.fixture
def rung(request: pytest.FixtureRequest) -> Iterator[Rung]:
    """The rung the test runs on, switched on."""
    chosen: Rung = request.param
    for marker in request.node.iter_markers("subject"):
        if reason := rungs.declined(marker.args[0], chosen):
            pytest.skip(f"{marker.args[0]} on {chosen.name}: {reason}")
    if reason := chosen.unavailable():
        stop = pytest.fail if rungs.required() else pytest.skip
        stop(f"rung {chosen.name}: {reason}")
    with chosen.active():
        yield chosen


@pytest.fixture
def xp(rung: Rung) -> Any:
    """The array namespace of the rung."""
    return rung.load()


@pytest.fixture
def device(rung: Rung) -> Any:
    """The device of the rung."""
    return rung.device


@pytest.fixture
def float_dtype_name(request: pytest.FixtureRequest, rung: Rung) -> str:
    """The name of each floating dtype the rung has."""
    name: str = request.param
    return name


@pytest.fixture
def dtype(xp: Any, float_dtype_name: str) -> Any:
    """Each floating dtype the rung has."""
    return getattr(xp, float_dtype_name)


@pytest.fixture
def no_sync(rung: Rung) -> Callable[[], AbstractContextManager[Any]]:
    """``with no_sync():`` around code in which the host must not wait for the device."""
    return rung.forbid_syncs
