"""The command line, as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import arraylearn as al
from arraylearn import cli
from arraylearn.backend import probe
from arraylearn.selftest import against_numpy
from arraylearn.selftest.shown_learners import learners


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
    monkeypatch.setattr(
        "arraylearn.selftest.shown_learners.run_demo", lambda backend: seen.append(backend) or []
    )
    assert cli.main(["demo", "--backend", "torch"]) == 0
    assert seen == ["torch"]
    assert "arraylearn on torch" in capsys.readouterr().out


def test_selftest_passes(capsys):
    assert cli.main(["selftest", "--backend", "numpy"]) == 0
    assert ", 0 failed" in capsys.readouterr().out


def test_selftest_that_fails_says_so(monkeypatch, capsys):
    bad = against_numpy.Comparison("logsumexp", False, 0.5, "differs from NumPy", None, 0.1)
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
    outcomes = list(against_numpy.run_selftest(name))
    probe.forget_probes()
    assert [outcome for outcome in outcomes if not outcome.passed] == []
    assert all(outcome.counts is not None for outcome in outcomes)


def first_failure():
    return next(outcome for outcome in against_numpy.run_selftest("torch") if not outcome.passed)


def test_selftest_sees_a_wrong_kernel(monkeypatch):
    pytest.importorskip("torch")
    from arraylearn.backend.native import torch as native

    monkeypatch.setattr(native, "bin_columns", lambda x, edges, missing_bin, dtype: x.T.to(dtype))
    failure = first_failure()
    assert failure.name == "bin_columns"
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


def run_as_a_module(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "arraylearn", *arguments], capture_output=True, text=True, **options
    )


def test_as_a_module():
    result = run_as_a_module("info", check=True)
    assert al.__version__ in result.stdout


def test_an_error_of_a_real_process():
    result = run_as_a_module("fit", "nothing.csv", "--model", "m.safetensors")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "arraylearn: `path`: there is no file 'nothing.csv'.\n"
    result = run_as_a_module("fit", "nothing.csv", "--model", "m.safetensors", "--debug")
    assert result.returncode == 2
    assert result.stderr.startswith("Traceback")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_an_output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "arraylearn", "info"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "No space left" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="pipes end otherwise there")
def test_a_reader_that_has_gone_away():
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "arraylearn", "info"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, "")


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"arraylearn {al.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "required: command; see arraylearn --help"),
        (["learn"], "invalid choice: 'learn'"),
        (["fit"], "required: data, --model; see arraylearn fit --help"),
        (["fit", "a.csv", "--model", "m", "--learner", "oracle"], "invalid choice: 'oracle'"),
        (["evaluate", "a.csv", "--folds", "few"], "invalid int value: 'few'"),
        (["info", "--colour"], "unrecognized arguments: --colour"),
        (["bench", "--size", "huge\nand more"], "invalid choice"),
    ],
)
def test_wrong_arguments_are_one_line(capsys, arguments, told):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("arraylearn: ")
    assert told in err


def failing(error):
    def run(options):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("`a` must\n  be b."), "arraylearn: `a` must be b.\n"),
        (TypeError("no such thing"), "arraylearn: unexpected TypeError: no such thing (run with --debug"),
        (KeyError("format"), "arraylearn: unexpected KeyError: 'format' (run with --debug"),
        (PermissionError(13, "Permission denied", "m"), "arraylearn: 'm': Permission denied.\n"),
        (OSError("out of order"), "arraylearn: out of order\n"),
        (MemoryError(), "arraylearn: out of memory.\n"),
        (ValueError("x" * 5000), " ...\n"),
    ],
)
def test_errors_are_one_line(capsys, monkeypatch, error, told):
    monkeypatch.setattr(cli.about, "_info", failing(error))
    assert cli.main(["info"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err
    assert len(err) < 1100


@pytest.mark.parametrize(
    "arguments", [["--debug", "info"], ["info", "--debug"], ["--debug", "info", "--debug"]]
)
def test_debug_shows_the_traceback(capsys, monkeypatch, arguments):
    monkeypatch.setattr(cli.about, "_info", failing(ValueError("wrong")))
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.endswith("ValueError: wrong\narraylearn: wrong\n")


def test_an_interrupt(capsys, monkeypatch):
    monkeypatch.setattr(cli.about, "_info", failing(KeyboardInterrupt()))
    assert cli.main(["info"]) == 130
    assert capsys.readouterr().err == "arraylearn: interrupted\n"


def test_warnings_are_one_line(capsys, monkeypatch):
    def warn(options):
        warnings.simplefilter("always")
        warnings.warn("this\nis odd", stacklevel=1)
        return 0

    monkeypatch.setattr(cli.about, "_info", warn)
    before = warnings.showwarning
    assert cli.main(["info"]) == 0
    assert capsys.readouterr().err == "arraylearn: warning: this is odd\n"
    assert warnings.showwarning is before


def test_a_file_that_bench_did_not_write(tmp_path, capsys):
    path = tmp_path / "run.json"
    for text in ("no JSON", "{}", "[1]"):
        path.write_text(text)
        for growth in ([], ["--growth"]):
            assert cli.main(["bench", "--read", str(path), *growth]) == 2
            err = capsys.readouterr().err
            assert err.count("\n") == 1
            assert "`--read` takes files that" in err
