"""A run: results, ratios, bars, files, tables, charts."""

from __future__ import annotations

import json
import time
from dataclasses import replace

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
    settings = {"family": "svm", "name": "sleep", "bar": "gaussian machine", "shapes": shapes}
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


def result(bar, size, backend="numpy", **ratios):
    one = Contestant(1.0, [1.0], 100.0, 0, None)
    against = {name: Ratio(value, value, value, value) for name, value in ratios.items()}
    peers = dict.fromkeys(ratios, one)
    return Result("f", "c", size, 1, 1, 2, 1, backend, "accuracy", bar, {}, one, peers, against)


def test_bars_take_the_geometric_mean_beside_the_fastest_peer():
    found = summarize(
        [
            result("boosting", "medium", lightgbm=4.0, xgboost=1.0),
            result("boosting", "large", lightgbm=4.0, xgboost=9.0),
            result(None, "large", lightgbm=0.1),
        ]
    )
    (one,) = found
    assert one.mean == pytest.approx(2.0)  # of 1 and 4
    assert (one.sizes, one.n_cases, one.verdict) == ("medium, large", 2, "reached")


def test_a_bar_speaks_of_the_sizes_it_was_set_for():
    small, medium = summarize(
        [result("gaussian machine", "small", libsvm=1.0), result("gaussian machine", "medium", libsvm=1.0)]
    )
    assert small.verdict == "missed below its size"
    assert medium.verdict == "MISSED"


def test_tables_and_page_say_the_same(report, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    show.print_report(report)
    told = capsys.readouterr().out
    page = show.markdown(report)
    for text in ("sleep", "libsvm", "0.75", "scikit-learn-intelex", "reached"):
        assert text in told
        assert text in page
    assert "peer's memory" in page


def test_the_page_keeps_what_was_written_by_hand(report, tmp_path):
    path = tmp_path / "RESULTS.md"
    begin, end = show._marks("bench")
    path.write_text(f"by hand\n{begin}\nold tables\n{end}\nalso by hand\n")
    show.rewrite_section(path, show.markdown(report))
    text = path.read_text()
    assert text.startswith("by hand\n")
    assert text.endswith("also by hand\n")
    assert "old tables" not in text
    assert "| svm | sleep |" in text
    show.rewrite_section(path, show.markdown(report))
    assert path.read_text() == text
    other = tmp_path / "other.md"
    other.write_text("nothing marked")
    with pytest.raises(ValueError, match="has no section to rewrite"):
        show.rewrite_section(other, "text")
    assert other.read_text() == "nothing marked"


def test_charts(report, tmp_path):
    pytest.importorskip("matplotlib")
    from arraylearn.plot.benchmark import plot_bench

    left, right = plot_bench(report).axes
    assert left.get_xscale() == right.get_xscale() == "log"
    assert "svm: sleep" in left.get_yticklabels()[0].get_text()


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
