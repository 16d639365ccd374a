"""``bench``: throughput on this machine, beside the peers that are installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from json import JSONDecodeError
from pathlib import Path
from typing import Any

__all__ = ["add_commands"]

_ABOUT = """Time the learners on this machine, interleaved with the peers that are installed, and print rows
per second, memory, accuracy and the ratios to the peers. Peers that are missing are left out and listed
below the table."""
_EXAMPLES = """examples:
  arraylearn bench                                     every family, small, on the CPU, one thread
  arraylearn bench svm tree --size medium --threads 1 2
  arraylearn bench forest --backend compiled torch torch:cuda cupy --no-peers
  arraylearn bench --json run.json --chart run.png     keep the figures; draw them
  arraylearn bench --read run.json --chart run.svg     draw or print an earlier run
  arraylearn bench --size small medium large --threads 1 2 --results RESULTS.md     the page of all bars
  arraylearn bench --growth bayes                      how time and memory grow with rows, columns, classes
"""


def add_commands(commands: Any) -> None:
    """Add the command to the parser's."""
    parser = commands.add_parser(
        "bench",
        help="time the learners on this machine, beside peers",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "families",
        nargs="*",
        metavar="family",
        help="bayes, tree, pruning, forest, boosting, svm, rules, selection, kernels, small_sets, "
        "torch_input, first_fit (default: all)",
    )
    add(
        "--backend",
        nargs="+",
        help="one or more, such as numpy torch cupy torch:cuda:0; `compiled` is NumPy with Numba, `numpy` is "
        "NumPy alone (default: compiled where Numba is installed, else numpy)",
    )
    add("--size", nargs="+", default=["small"], choices=["small", "medium", "large"])
    add("--threads", nargs="+", type=int, default=[1], help="CPU threads, ours and the peers' (default: 1)")
    add("--only", default="", metavar="TEXT", help="cases whose name contains this text")
    add("--turns", type=int, help="upper limit on the turns per case")
    add("--no-peers", action="store_true", help="ours only")
    add("--cpu-time", action="store_true", help="processor time, for one thread on a busy machine")
    add("--json", type=Path, metavar="FILE", help="write all figures here, after every case")
    add("--read", type=Path, nargs="+", metavar="FILE", help="show earlier runs instead of making one")
    add("--chart", type=Path, metavar="FILE", help="draw a chart (png, svg, pdf; needs matplotlib)")
    add("--results", type=Path, metavar="FILE", help="write a page of Markdown: each job and its bar")
    add("--growth", action="store_true", help="fit how time and memory grow, instead of comparing with peers")
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    from arraylearn.bench.conditions import default_backend

    _refuse_early(options)
    options.backend = options.backend or [default_backend()]
    report, show = _growth(options) if options.growth else _compare(options)
    if options.json is not None:
        report.save(options.json)
    show(report)
    if options.chart is not None:
        from arraylearn.plot.benchmark import save_chart

        save_chart(_draw(report, options.growth), options.chart)
    if options.results is not None:
        from arraylearn.bench.show import write_page

        write_page(report, options.results, options.chart)
    return 0


def _draw(report: Any, is_growth: bool) -> Any:
    from arraylearn.bench.results import summarize
    from arraylearn.bench.show import headline
    from arraylearn.plot.benchmark import plot_bench, plot_growth

    return plot_growth(report) if is_growth else plot_bench(summarize(report.results), headline(report)[0])


def _refuse_early(options: argparse.Namespace) -> None:
    """Raise before the long run if its results could not be written."""
    for name in ("json", "chart", "results"):
        path = getattr(options, name)
        if path is not None and not path.resolve().parent.is_dir():
            raise ValueError(f"`--{name}`: there is no folder {path.resolve().parent}. Make it first.")
    if options.chart is not None:
        from arraylearn.plot.benchmark import refuse_without_matplotlib

        refuse_without_matplotlib("--chart")
    if options.turns is not None and options.turns < 1:
        raise ValueError(f"`--turns` must be at least 1; got {options.turns}.")
    if options.results is not None:
        from arraylearn.bench.show import refuse_other_page

        if options.growth:
            raise ValueError("`--results` is for the comparison with peers; `--growth` has `--json`.")
        refuse_other_page(options.results)


def _read_back(read: Callable[[Any], Any], paths: list[Path]) -> Any:
    """Read earlier runs; any error of the reader means that the file is not one of ours."""
    try:
        return read(paths)
    except (JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"`--read` takes files that `arraylearn bench --json` wrote; {', '.join(map(str, paths))} cannot "
            f"be read as such ({type(error).__name__}: {error})."
        ) from error


def _compare(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return a report of all cases, and the function that prints it."""
    from rich.console import Console

    from arraylearn.bench import BenchOptions, run_bench
    from arraylearn.bench.results import BenchReport, join_reports
    from arraylearn.bench.show import print_report

    if options.read is not None:
        report = _read_back(lambda paths: join_reports(list(map(BenchReport.read, paths))), options.read)
        return report, print_report
    chosen = BenchOptions(
        sizes=options.size,
        backends=options.backend,
        n_threads=options.threads,
        with_peers=not options.no_peers,
        clock="cpu" if options.cpu_time else "wall",
        only=options.only,
        turns=options.turns,
    )
    with Console(stderr=True).status("the first case ...") as status:
        report = run_bench(
            options.families,
            chosen,
            on_result=lambda result: status.update(
                f"done: {result.family}: {result.case}, {result.size} ..."
            ),
            on_case=None if options.json is None else lambda report: report.save(options.json),
        )
    return report, print_report


def _growth(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return a report of the growth of cost, and the function that prints it."""
    from rich.console import Console

    from arraylearn.bench.cost_slopes import measure_slopes, print_slopes, read_slopes

    if len(options.backend) > 1 or len(options.threads) > 1:
        raise ValueError("`--growth` takes one `--backend` and one number of `--threads`.")
    if options.read is not None:
        return _read_back(read_slopes, options.read), print_slopes
    with Console(stderr=True).status("the first learner ...") as status:
        report = measure_slopes(
            options.families,
            backend=options.backend[0],
            n_threads=options.threads[0],
            size=options.size[0],
            only=options.only,
            on_learner=lambda name: status.update(f"done: {name} ..."),
        )
    return report, print_slopes
