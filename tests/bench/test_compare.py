"""A run: results, ratios, bars, files, tables, charts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from arraylearn import cli
from arraylearn.backend import dispatch, probe
from arraylearn.backend.dispatch import get_compiled
from arraylearn.bench import compare, show
from arraylearn.bench.case import SIZES, Case, Race
from arraylearn.bench.compare import BenchOptions, run_bench
from arraylearn.bench.data import Shape
from arraylearn.bench.harness import Ratio
from arraylearn.bench.results import BenchReport, Contestant, Result, join_reports, summarize
from tests.bench.test_cases import CASES, tiny


def sleeping(seconds, result):
    def work():
        time.sleep(seconds)
        return result

    return work


def invented(prepare=None, **changes):
    """A case whose times are known: ours sleeps 4 ms, LIBSVM 40 ms, oneDAL fails to be there."""

    def known(shape, n_threads):
        return Race(
            lambda place: sleeping(0.004, 0.75),
            {"libsvm": lambda: sleeping(0.04, 0.5), "onedal": lambda: sleeping(0.0, 1.0)},
            float,
        )

    shapes = dict.fromkeys(SIZES, Shape(100, 7, 2))
    settings = {"family": "svm", "name": "sleep", "bars": ("gaussian machine",), "shapes": shapes}
    settings |= {"peers": ("libsvm", "onedal"), "prepare": prepare or known}
    return Case(**{**settings, **changes})


@pytest.fixture
def known_peers(monkeypatch):
    monkeypatch.setattr(compare, "installed_peers", lambda: frozenset({"libsvm"}))
    monkeypatch.setattr(compare, "missing_peers", lambda: {"onedal": "pip install scikit-learn-intelex"})


@pytest.fixture
def report(monkeypatch, known_peers):
    monkeypatch.setattr(compare, "all_cases", lambda families: [invented()])
    return run_bench(options=BenchOptions(sizes=["medium"], turns=2))


def test_a_run(report):
    (one,) = report.results
    assert (one.case, one.size, one.n_rows, one.threads, one.backend) == ("sleep", "medium", 100, 1, "numpy")
    assert (one.ours.quality, one.peers["libsvm"].quality) == (0.75, 0.5)
    assert len(one.ours.turns) == 2
    assert one.ours.rows_per_second == pytest.approx(100 / one.ours.seconds)
    # sleeps last at least what they were asked for; how much longer is the machine's affair
    assert one.ours.seconds >= 0.004
    assert one.peers["libsvm"].seconds >= 0.04
    ratio = one.ratios["libsvm"]
    assert ratio.ratio == pytest.approx(one.peers["libsvm"].seconds / one.ours.seconds)
    assert ratio.low <= ratio.median <= ratio.high
    assert report.skipped == {"onedal": "not installed: pip install scikit-learn-intelex"}


def test_the_file_holds_everything(report, tmp_path):
    path = tmp_path / "run.json"
    report.save(path)
    assert BenchReport.read(path) == report
    assert json.loads(path.read_text())["results"][0]["ratios"]["libsvm"]["ratio"] > 0


def test_runs_are_joined(report):
    again = [replace(report.results[0], size="large"), replace(report.results[0], n_rows=7)]
    later = replace(report, load_before=7000.0, quiet=False, skipped={"a": "b"}, results=again)
    both = join_reports([report, later])
    assert [(one.size, one.n_rows) for one in both.results] == [("medium", 7), ("large", 100)]
    assert (both.load_before, both.quiet) == (7000.0, False)
    assert set(both.skipped) == {"onedal", "a"}
    with pytest.raises(ValueError, match="different machines"):
        join_reports([report, replace(report, machine={})])


def test_a_case_that_fails_costs_nothing_else(monkeypatch, known_peers):
    def broken(shape, n_threads):
        raise RuntimeError("no rows today")

    cases = [invented(broken, name="broken"), invented()]
    monkeypatch.setattr(compare, "all_cases", lambda families: cases)
    seen = []
    report = run_bench(options=BenchOptions(turns=1), on_result=seen.append)
    assert [one.case for one in report.results] == [one.case for one in seen] == ["sleep"]
    assert "no rows today" in report.skipped["broken, small"]


def test_an_interrupted_run_keeps_what_was_done(monkeypatch, known_peers, tmp_path):
    def interrupted(shape, n_threads):
        raise KeyboardInterrupt

    cases = [invented(), invented(interrupted, name="never ends"), invented(name="after it")]
    monkeypatch.setattr(compare, "all_cases", lambda families: cases)
    path = tmp_path / "run.json"
    report = run_bench(options=BenchOptions(turns=1), on_case=lambda so_far: so_far.save(path))
    assert [one.case for one in report.results] == ["sleep"]
    assert "interrupted" in report.skipped.values()
    assert BenchReport.read(path).results == report.results


def test_ours_runs_where_it_is_told(monkeypatch, known_peers):
    seen = []

    def noting(shape, n_threads):
        return Race(lambda place: lambda: seen.append(get_compiled()), {}, None)

    monkeypatch.setattr(compare, "all_cases", lambda families: [invented(noting)])
    monkeypatch.setattr(dispatch, "is_numba_installed", lambda: True)
    run_bench(options=BenchOptions(backends=["numpy", "compiled"], turns=1))
    assert set(seen) == {"never", "always"}
    monkeypatch.setattr(dispatch, "is_numba_installed", lambda: False)
    with pytest.raises(ImportError, match=r"needs Numba.*pip install"):
        run_bench(options=BenchOptions(backends=["compiled"]))


def test_without_peers_and_with_a_part_of_the_work(monkeypatch, known_peers):
    def part(shape, n_threads):
        return Race(
            lambda place: sleeping(0.001, 1), {"libsvm": lambda: sleeping(0.02, 1)}, None, {"libsvm": 0.1}
        )

    monkeypatch.setattr(compare, "all_cases", lambda families: [invented(part)])
    (alone,) = run_bench(options=BenchOptions(with_peers=False, turns=1)).results
    assert alone.peers == {}
    (beside,) = run_bench(options=BenchOptions(turns=1)).results
    assert beside.peers["libsvm"].seconds >= 0.2  # a tenth of the work took 20 ms
    assert beside.ours.quality is None


def test_wrong_choices_are_refused():
    with pytest.raises(ValueError, match="`size` must be 'small', 'medium' or 'large'; got 'huge'"):
        run_bench(options=BenchOptions(sizes=["huge"]))
    with pytest.raises(ValueError, match="`family`"):
        run_bench(["trees"])


def result(bar, size, n_threads=1, seconds=1.0, quality=None, n_rows=1, peak=0, **ratios):
    """A result of ours, and of peers that took so many times as long."""
    one = Contestant(seconds, [seconds], 100.0, peak, quality)
    against = {name: Ratio(value, value, value, value) for name, value in ratios.items()}
    peers = {
        name: Contestant(seconds * value, [seconds * value], 1.0, 0, quality and quality - 0.1)
        for name, value in ratios.items()
    }
    about = ("f", "c", size, n_rows, 1, 2, n_threads, "numpy", 1000, "accuracy", [bar] if bar else [])
    return Result(*about, one, peers, against)


def test_bars_take_the_geometric_mean_beside_the_fastest_peer():
    (one,) = summarize(
        [
            result("boosting", "small", quality=0.9, lightgbm=4.0, xgboost=1.0),
            result("boosting", "medium", quality=0.7, lightgbm=4.0, xgboost=9.0),
            result(None, "large", lightgbm=0.1),
        ]
    )
    assert one.ratios == {1: pytest.approx(2.0)}  # of 1 and 4
    assert (one.beside, one.n_cases, one.is_reached) == ("lightgbm or xgboost", 2, True)
    assert one.quality == pytest.approx((0.8, 0.7))


def test_a_bar_judges_the_sizes_that_it_speaks_of():
    both = [result("gaussian machine", size, libsvm=1.0) for size in ("small", "medium")]
    (one,) = summarize(both)
    assert (one.n_cases, one.is_reached) == (1, False)


def test_each_case_counts_unless_our_time_suffices():
    cells = [result("few rows", "small", **{"scikit-learn": 3.0})]
    cells += [result("few rows", "small", seconds=0.002, **{"scikit-learn": 0.1})]
    assert summarize(cells)[0].ratios == {1: 1.0}
    cells += [result("few rows", "small", seconds=0.004, **{"scikit-learn": 0.5})]
    assert summarize(cells)[0].ratios == {1: 0.5}


def test_second_threads_and_memory_of_large_tables():
    runs = [result("exact tree", "medium", n, 3.0 / n, None, 100_000, 400 * n) for n in (1, 2)]
    runs += [result("exact tree", "small", n, 1.0, None, 10_000, 10**6) for n in (1, 2)]
    second, memory = summarize(runs)
    assert (second.job, second.ratios) == ("exact tree, 2-3 classes: second thread", {2: 2.0})
    assert (memory.job, memory.ratios) == ("exact tree, 2-3 classes: memory", {1: 2.5, 2: 1.25})


def test_recorded_times_stand_for_a_peer(monkeypatch, known_peers):
    def recorded(shape, n_threads):
        return Race(lambda place: sleeping(0.004, 1), {}, None, recorded={"5 s": 5.0})

    case = invented(recorded, bars=("first fit",), peers=(), shapes={"small": Shape(1, 1)})
    monkeypatch.setattr(compare, "all_cases", lambda families: [case])
    (one,) = run_bench(options=BenchOptions(sizes=["small", "medium"], turns=2)).results
    assert one.ratios["5 s"].ratio == pytest.approx(5.0 / one.ours.seconds)


def test_processor_time_counts_what_children_spend():
    before = compare._processor_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    assert compare._processor_seconds() - before >= 0.01  # starting Python alone takes longer


def test_the_page_has_a_row_for_each_job(report, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "250")
    faster, slower = (replace(report.results[0], ratios={"libsvm": Ratio(*4 * (n,))}) for n in (5.5, 0.5))
    report = replace(report, results=[faster])
    show.print_report(report)
    told = capsys.readouterr().out
    path = tmp_path / "RESULTS.md"
    show.write_page(report, path, tmp_path / "charts" / "bars.svg")
    page = path.read_text()
    for text in ("SVC gaussian, 5k-20k rows", "libsvm", "scikit-learn-intelex"):
        assert text in told
        assert text in page
    assert "sleep" in told
    assert "](charts/bars.svg)" in page
    assert "| SVC gaussian, 5k-20k rows | libsvm | 5.5 | 3 | 0.750 / 0.500 |" in page
    show.write_page(replace(report, results=[slower]), path)  # its own page may be written anew
    assert "| libsvm | **0.5** | 3 |" in path.read_text()


def test_no_other_page_is_lost(report, tmp_path):
    other = tmp_path / "README.md"
    other.write_text("by hand")
    with pytest.raises(ValueError, match="is another page"):
        show.write_page(report, other)
    assert other.read_text() == "by hand"
    assert cli.main(["bench", "--results", str(other)]) == 2


def test_charts(report, tmp_path):
    pytest.importorskip("matplotlib")
    from arraylearn.plot.benchmark import plot_bench

    (axes,) = plot_bench(summarize(report.results), "a run").axes
    assert axes.get_xscale() == "log"
    assert axes.get_yticklabels()[0].get_text() == "SVC gaussian, 5k-20k rows | libsvm"
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[report.results[0].ratios["libsvm"].ratio, 0]])


# ---- the command


def test_the_command_writes_everything(monkeypatch, known_peers, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(compare, "all_cases", lambda families: [invented()])
    kept = {name: tmp_path / f"run.{name}" for name in ("json", "svg", "md")}
    names = ["--json", str(kept["json"]), "--chart", str(kept["svg"]), "--results", str(kept["md"])]
    assert cli.main(["bench", "svm", "--turns", "1", *names]) == 0
    assert "sleep" in capsys.readouterr().out
    assert all(path.stat().st_size > 100 for path in kept.values())
    monkeypatch.setattr(compare, "all_cases", lambda families: pytest.fail("ran again"))
    assert cli.main(["bench", "--read", str(kept["json"])]) == 0
    assert "sleep" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["trees"], "`family` must be one of"),
        (["--threads", "4000"], "`threads` must be from 1 to"),
        (["--backend", "torch:cuda:77"], "not available here"),
        (["--json", "/no/such/folder/run.json"], "there is no folder"),
        (["--turns", "0"], "`--turns` must be at least 1"),
        (["--growth", "--threads", "1", "2"], "one number of `--threads`"),
        (["--growth", "--results", "new.md"], "`--results` is for the comparison"),
        (["--read", "no_such_file.json"], "no_such_file.json"),
    ],
)
def test_the_command_refuses(options, told, capsys):
    assert cli.main(["bench", *options]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.rungs("torch", "fake_cuda", "cupy")
def test_the_command_on_the_rung(rung, monkeypatch, capsys):
    """What a user with a GPU types, on the devices that stand in for one."""
    name = {"torch": "torch", "fake_cuda": "torch:cuda", "cupy": "cupy"}[rung.name]
    cases = [tiny(case, 60) for case in CASES if case.family == "bayes"]
    monkeypatch.setattr(compare, "all_cases", lambda families: cases)
    probe.forget_probes()
    try:
        assert cli.main(["bench", "bayes", "--backend", "numpy", name, "--turns", "1"]) == 0
    finally:
        probe.forget_probes()
    told = capsys.readouterr().out
    assert told.count(name.split(":")[0]) >= len(cases)
    assert "failed" not in told
