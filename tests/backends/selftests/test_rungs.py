"""Every rung keeps the promises it makes in rungs.py, and the fixtures keep theirs."""

from __future__ import annotations

import re

import array_api_compat
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arraylearn.backend.namespace import locate
from tests.backends import rungs
from tests.backends.assertions import assert_close

pytest_plugins = ["pytester"]

HOST_WAITS = {
    "shapes": [
        lambda xp, x: x[x > 1],
        lambda xp, x: xp.nonzero(x),
        lambda xp, x: xp.unique_values(x),
    ],
    "scalars": [
        lambda xp, x: float(xp.sum(x)),
        lambda xp, x: int(x[0]),
        lambda xp, x: x if xp.any(x > 1) else -x,
    ],
}


# ---- the rungs


def test_round_trip(rung, device):
    for host in (np.arange(6.0, dtype="float32").reshape(2, 3), np.asarray([True, False]), np.asarray(3)):
        x = rung.from_host(host)
        assert array_api_compat.device(x) == device
        back = rung.to_host(x)
        assert back.dtype == host.dtype
        np.testing.assert_array_equal(back, host)


def test_from_host_does_not_share_memory(rung):
    host = np.zeros(3, dtype="float32")
    x = rung.from_host(host)
    host[0] = 1
    assert_close(x, np.zeros(3, dtype="float32"))


def test_from_host_casts(rung, xp, dtype, float_dtype_name):
    for wanted in (dtype, float_dtype_name):
        assert rung.from_host([1, 2], dtype=wanted).dtype == dtype
    assert rungs.dtype_name(xp, dtype) == float_dtype_name


def test_namespace_is_the_one_of_the_arrays(rung, xp):
    assert locate(rung.from_host(np.zeros(2, dtype="float32"))).xp is xp


def test_every_listed_dtype_computes(xp, device, dtype):
    x = xp.ones((3,), dtype=dtype, device=device)
    assert xp.sum(x).dtype == dtype


@pytest.mark.rungs("strict_float32")
def test_unlisted_float64_is_refused(rung, xp, device):
    with pytest.raises(ValueError, match="does not support dtype"):
        xp.zeros(3, dtype=xp.float64, device=device)
    with pytest.raises(ValueError, match="does not support dtype"):
        rung.from_host(np.zeros(3))


@pytest.mark.parametrize("wait", ["shapes", "scalars"])
def test_forbid_syncs_catches_what_it_claims(rung, xp, no_sync, wait):
    x = rung.from_host(np.asarray([0, 1, 2], dtype="float32"))
    for program in HOST_WAITS[wait]:
        program(xp, x)
        if wait in rung.catches:
            with pytest.raises((RuntimeError, IndexError)), no_sync():
                program(xp, x)
        else:
            with no_sync():
                program(xp, x)
        program(xp, x)  # allowed again


def test_forbid_syncs_lets_a_good_program_pass(rung, xp, device, dtype, no_sync):
    x = rung.from_host([[1, 2], [3, 4]], dtype)
    with no_sync():
        positive = xp.where(x > 1, x, xp.zeros((), dtype=dtype, device=device))
        total = xp.sum(xp.take(positive, xp.asarray([1, 1], device=device), axis=0), axis=0)
    assert_close(total, [6.0, 8.0], dtype=dtype)


@pytest.mark.rungs("launches")
def test_counts(rung, xp):
    x = rung.from_host(np.ones(4, dtype="float32"))
    before = rung.counts()
    y = xp.sum(x * 2)
    between = rung.counts()
    float(y)
    after = rung.counts()
    assert between["launches"] - before["launches"] == 2
    assert between["syncs"] == before["syncs"]
    assert after["syncs"] - between["syncs"] == 1


@pytest.mark.rungs("strict", "strict_float32")
@pytest.mark.parametrize(
    ("program", "n_syncs"),
    [
        (lambda rung, xp, x: bool(xp.any(x > 1)), 1),
        (lambda rung, xp, x: rung.to_host(x), 1),
        (lambda rung, xp, x: x[x > 1], 1),
        (lambda rung, xp, x: xp.unique_values(x), 1),
        (lambda rung, xp, x: xp.where(x > 1, x, x)[1:], 0),
        (lambda rung, xp, x: x.to_device(x.device), 0),
    ],
)
def test_syncs_of_the_strict_device_are_counted(rung, xp, program, n_syncs):
    x = rung.from_host(np.arange(4, dtype="float32"))
    before = rung.counts()["syncs"]
    program(rung, xp, x)
    assert rung.counts()["syncs"] - before == n_syncs


@pytest.mark.rungs("strict", "strict_float32", "fake_cuda")  # whose device is not the default one
def test_another_device_is_refused(rung, xp):
    with pytest.raises((RuntimeError, ValueError), match="device"):
        rung.from_host(np.ones(3, dtype="float32")) + xp.ones(3, dtype=xp.float32)


def test_current(rung):
    assert rungs.current() is rung


def test_current_outside_of_a_rung():
    assert rungs.current() is rungs.RUNGS["numpy"]


@hypothesis.given(numbers=st.lists(st.integers(-9, 9), min_size=1))
def test_hypothesis_and_the_fixtures(rung, xp, dtype, numbers):
    x = rung.from_host(numbers, dtype)
    assert_close(xp.max(x), float(max(numbers)), dtype=dtype)


# ---- selection and declarations


def test_select_keeps_the_order_of_the_ladder():
    assert [rung.name for rung in rungs.select("torch, numpy")] == ["numpy", "torch"]


@pytest.mark.parametrize(
    ("names", "message"),
    [("numpy,jax", "unknown rung 'jax'"), ("", "unknown rung ''"), ("cupy,cupy_nvrtc", "separate processes")],
)
def test_select_refuses(names, message):
    with pytest.raises(ValueError, match=message):
        rungs.select(names)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"CI": "true"}, True),
        ({"CI": "false"}, False),
        ({"ARRAYLEARN_REQUIRE_RUNGS": "1"}, True),
    ],
)
def test_required(monkeypatch, settings, expected):
    for name in ("CI", "ARRAYLEARN_REQUIRE_RUNGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert rungs.required() is expected


def test_exceptions_name_known_rungs_and_give_reasons():
    for subject, refusals in rungs.EXCEPTIONS.items():
        for name, reason in refusals.items():
            assert name in rungs.RUNGS, f"{subject}: unknown rung {name!r}"
            assert re.search(r"\w+ \w+", reason), f"{subject} on {name}: give a reason"


# ---- the fixtures, in a pytest of their own


@pytest.fixture
def inner(pytester, monkeypatch):
    """Run a test module under a copy of the project's conftest.py; returns the result."""
    for name in ("CI", "ARRAYLEARN_REQUIRE_RUNGS"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest("from tests.conftest import *")
    pytester.makeini("[pytest]\nmarkers =\n    subject(name): what is tested")

    def run(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess("-ra", "-p", "no:cacheprovider", *options)

    return run


def test_unknown_rung_is_a_usage_error(inner):
    result = inner("", "--rungs", "numpy,jax")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--rungs: unknown rung 'jax'; choose from numpy, compiled,*"])


def test_rungs_and_dtypes_are_crossed(inner):
    result = inner("def test_it(dtype, rung): pass", "--rungs", "numpy,strict_float32", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["rungs: numpy, strict_float32", "*numpy-float64*", "*strict_float32-float32*"]
    )


SUBJECTS = """
import pytest

@pytest.mark.subject("histogram")
def test_declined(rung):
    assert rung.name == "numpy"

@pytest.mark.parametrize("name", [pytest.param("histogram", marks=pytest.mark.subject("histogram")), "other"])
def test_declined_parameter(rung, name):
    assert rung.name == "numpy" or name == "other"
"""


def test_declared_exception_skips_with_its_reason(inner, monkeypatch):
    monkeypatch.setitem(rungs.EXCEPTIONS, "histogram", {"strict": "needs scattered additions"})
    result = inner(SUBJECTS, "--rungs", "numpy,strict")
    result.assert_outcomes(passed=4, skipped=2)
    result.stdout.fnmatch_lines(["*histogram on strict: needs scattered additions*"])


@pytest.mark.parametrize("is_required", [False, True])
def test_unavailable_rung_skips_or_fails(inner, monkeypatch, is_required):
    monkeypatch.setattr(rungs.StrictRung, "unavailable", lambda rung: "array_api_strict is away")
    if is_required:
        monkeypatch.setenv("ARRAYLEARN_REQUIRE_RUNGS", "1")
    result = inner("def test_it(rung): pass", "--rungs", "numpy,strict")
    outcome = {"errors": 1} if is_required else {"skipped": 1}
    result.assert_outcomes(passed=1, **outcome)
    result.stdout.fnmatch_lines(["*rung strict: array_api_strict is away*"])


# ---- assert_close


def test_assert_close_accepts(rung, dtype, float_dtype_name):
    x = rung.from_host([1, np.nan], dtype)
    assert_close(x, x)
    assert_close(x, [1.0, np.nan])
    assert_close(x, np.asarray([1, np.nan], dtype=float_dtype_name))
    assert_close(x, [1.0 + {"float32": 1e-5, "float64": 1e-10}[float_dtype_name], np.nan], rung=rung)


@pytest.mark.parametrize(
    ("expected", "options", "message"),
    [
        ([1.0, 2.0, 3.0], {}, "shape"),
        ([1, 2], {}, "kind"),
        (np.asarray([1, 2], dtype="int64"), {}, "dtype float32, expected int64"),
        (np.asarray([1.0, 2.0]), {}, "dtype float32, expected float64"),
        ([1.0, 2.0], {"dtype": "float64"}, "dtype float32, expected float64"),
        ([1.0, 2.001], {}, "Not equal to tolerance"),
        ([1.0, 2.1], {"rtol": 1e-2}, "Not equal to tolerance"),
    ],
)
def test_assert_close_refuses(rung, expected, options, message):
    x = rung.from_host([1, 2], "float32")
    with pytest.raises(AssertionError, match=message):
        assert_close(x, expected, **options)


def test_assert_close_refuses_another_library(rung):
    strict = rung.name.startswith("strict")
    is_numpy = rung.name in ("numpy", "compiled")
    other = np.zeros(2) if not is_numpy else rungs.RUNGS["strict"].from_host(np.zeros(2))
    with pytest.raises(AssertionError, match="an array of"):
        assert_close(other, [0.0, 0.0])
    with pytest.raises(AssertionError, match="is not an array"):
        assert_close([0.0, 0.0], [0.0, 0.0])
    if strict:
        with pytest.raises(AssertionError, match="on device"):
            assert_close(rung.load().zeros(2), [0.0, 0.0])
