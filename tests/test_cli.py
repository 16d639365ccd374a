"""The command line, as a user types it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import arraylearn as al
from arraylearn import cli
from arraylearn.backend import probe
from arraylearn.selftest import run as selftest_run
from arraylearn.selftest.learners import learners


def test_info_names_every_backend(capsys):
    assert cli.main(["info"]) == 0
    told = capsys.readouterr().out
    for name in ("numpy", "torch", "cupy", "CPU threads"):
        assert name in told


def test_demo_shows_every_learner(capsys):
    assert cli.main(["demo"]) == 0
    told = capsys.readouterr().out
    for learner in learners():
        assert learner.name in told
        assert learner.data.name in told
    assert "backends of this machine" in told


def test_demo_names_the_chosen_backend(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr("arraylearn.selftest.demo.run_demo", lambda backend: seen.append(backend) or [])
    assert cli.main(["demo", "--backend", "torch"]) == 0
    assert seen == ["torch"]
    assert "arraylearn on torch" in capsys.readouterr().out


def test_selftest_passes(capsys):
    assert cli.main(["selftest", "--backend", "numpy"]) == 0
    assert ", 0 failed" in capsys.readouterr().out


def test_selftest_that_fails_says_so(monkeypatch, capsys):
    bad = selftest_run.Outcome("logsumexp", False, 0.5, "differs from NumPy", None, 0.1)
    monkeypatch.setattr("arraylearn.selftest.run_selftest", lambda backend: [bad])
    assert cli.main(["selftest", "--backend", "numpy"]) == 1
    told = capsys.readouterr().out
    assert "FAIL" in told
    assert "0 passed, 1 failed" in told


@pytest.mark.rungs("torch", "fake_cuda", "cupy", "cupy_nvrtc")
def test_selftest_on_the_rung(rung, capsys):
    """What a user with a GPU runs, on the devices that stand in for one."""
    name = {"torch": "torch", "fake_cuda": "torch:cuda", "cupy": "cupy", "cupy_nvrtc": "cupy"}[rung.name]
    probe.forget_probes()
    outcomes = list(selftest_run.run_selftest(name))
    probe.forget_probes()
    assert [outcome for outcome in outcomes if not outcome.passed] == []
    assert all(outcome.counts is not None for outcome in outcomes)


def first_failure():
    return next(outcome for outcome in selftest_run.run_selftest("torch") if not outcome.passed)


def test_selftest_sees_a_wrong_kernel(monkeypatch):
    pytest.importorskip("torch")
    from arraylearn.backend.native import torch as native

    monkeypatch.setattr(native, "logsumexp", lambda x, axis, keepdims: x.sum(dim=axis, keepdim=keepdims))
    failure = first_failure()
    assert failure.name == "logsumexp"
    assert "differs from NumPy" in failure.message


def test_selftest_reports_an_exception(monkeypatch):
    pytest.importorskip("torch")
    from arraylearn.backend.native import torch as native

    def broken(*arguments):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(native, "segment_sum", broken)
    assert "no such kernel" in first_failure().message


def test_a_missing_backend_is_explained(capsys):
    assert cli.main(["demo", "--backend", "torch:cuda:77"]) == 2
    assert "not available here" in capsys.readouterr().err
    assert cli.main(["demo", "--backend", "jax"]) == 2
    assert "must be one of" in capsys.readouterr().err


def test_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "arraylearn", "info"], capture_output=True, text=True, check=True
    )
    assert al.__version__ in result.stdout


def test_without_a_command():
    with pytest.raises(SystemExit):
        cli.main([])
