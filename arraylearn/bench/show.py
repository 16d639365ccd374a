"""Results as tables on the terminal, and as a page of Markdown with one row per job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arraylearn.bench.conditions import quiet_text
from arraylearn.bench.harness import Ratio
from arraylearn.bench.results import BenchReport, Contestant, Result, summarize

__all__ = ["headline", "print_report", "refuse_other_page", "seconds_text", "text_table", "write_page"]

_TERMINAL = ("case", "time", "rows/s", "memory", "quality", "peer / ours (spread), peer's quality")
_TITLE = "# What was measured"
_ABOUT = """\
Ours and each peer ran in alternating turns of one process, and the best turn counted. A figure is
**the peer's time / ours**: above 1 we are faster. It is the geometric mean over the cases of a job, or the
least of them in jobs marked "each". For a second thread it is our time with one thread over that with two;
for memory, the bytes of the input over those that a fit allocates, its model included. "3 s", "5 s" and
"150 us" are limits, J48 and JRip times recorded beforehand. **Bold** figures miss the bar."""


def seconds_text(seconds: float) -> str:
    """Format a time with a unit that suits it.

    >>> seconds_text(0.0123), seconds_text(4.2e-5), seconds_text(12.3)
    ('12.3 ms', '42 us', '12.3 s')
    """
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds < 1e3 else f"{seconds:.0f} s"
    return f"{seconds * 1e6:.0f} us"


def count_text(number: float) -> str:
    """Format a large number with a unit.

    >>> count_text(1234567), count_text(950), count_text(20_000)
    ('1.23 M', '950', '20 k')
    """
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"


def headline(report: BenchReport) -> list[str]:
    """Return lines about the machine, the conditions of the run and what was skipped."""
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    clock = "wall time" if report.clock == "wall" else "processor time"
    return [
        f"{report.began}: {machine['processor']}, {machine['usable_cores']} of {machine['cores']} cores, "
        f"{machine['system']}.",
        f"Machine {quiet_text(report.quiet)}: load {report.load_before} before, {report.load_after} after; "
        f"{clock}; {report.seconds:.0f} s in all.",
        f"{versions}.",
        *(f"Left out: {name} ({reason})." for name, reason in report.skipped.items()),
    ]


# ---- on the terminal


def print_report(report: BenchReport) -> None:
    """Print the tables on the terminal."""
    from rich.console import Console

    console = Console()
    cases, (headings, bars) = _case_rows(report.results), _bar_rows(report.results)
    if cases:
        console.print(text_table("Cases: ours, and each peer beside it", _TERMINAL, cases))
    if bars:
        console.print(text_table("Bars: the fastest peer's time / ours; **missed**", headings, bars))
    for text in headline(report):
        console.print(text, markup=False, highlight=False)


def _case_rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Return a row of text for each result, its peers together in the last cell."""
    rows: list[tuple[str, ...]] = []
    for one in results:
        ratios = [
            f"{name} {_spread(ratio)}, {_figures(one.peers[name])[-1]}" for name, ratio in one.ratios.items()
        ]
        classes = f", {one.n_classes} cl." if one.n_classes > 1 else ""
        shape = f"{one.size}: {count_text(one.n_rows)} x {one.n_columns}{classes}"
        threads = "1 thread" if one.threads == 1 else f"{one.threads} threads"
        case = f"{one.family}: {one.case}\n  {shape}; {one.backend}, {threads}"
        rows.append((case, *_figures(one.ours), "\n".join(ratios) or "-"))
    return rows


def _figures(one: Contestant) -> tuple[str, str, str, str]:
    """Return time, rows per second, memory and quality."""
    quality = "-" if one.quality is None else f"{one.quality:.5g}"
    return (
        seconds_text(one.seconds),
        count_text(one.rows_per_second),
        f"{count_text(one.peak_bytes)}B",
        quality,
    )


def _spread(one: Ratio) -> str:
    return f"{one.ratio:.3g} ({one.low:.3g}-{one.high:.3g})"


def text_table(title: str | None, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return a table for the terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, heading in enumerate(headings):
        is_number = all(row[place][:1].isdigit() or row[place] == "-" for row in rows)
        table.add_column(
            escape(heading), justify="right" if is_number else "left", overflow="fold", no_wrap=is_number
        )
    for row in rows:
        table.add_row(*map(escape, row))
    return table


# ---- the page


def _bar_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return headings, and a row of text for each bar that the results bear on."""
    threads = sorted({one.threads for one in results})
    backends = {one.backend for one in results}
    rows = []
    for one in summarize(results):
        ratios = []
        for n in threads:
            text = f"{one.ratios[n]:.3g}" if n in one.ratios else "-"
            ratios.append(f"**{text}**" if one.ratios.get(n, one.least) < one.least else text)
        quality = "-" if one.quality is None else " / ".join(f"{value:.3f}" for value in one.quality)
        job = one.job if len(backends) == 1 else f"{one.job} ({one.backend})"
        rows.append([job, one.beside, *ratios, f"{one.least:.2g}", quality])
    counts = ["1 thread" if n == 1 else f"{n} threads" for n in threads]
    return ["job", "beside", *counts, "bar", "accuracy, ours / theirs"], rows


def refuse_other_page(path: str | Path) -> None:
    """Raise for a file that is there and was not written by `write_page`."""
    if Path(path).exists() and not Path(path).read_text(encoding="utf-8").startswith(_TITLE):
        raise ValueError(f"`results`: {path} is another page, and would be lost. Name another file.")


def write_page(report: BenchReport, path: str | Path, chart: str | Path | None = None) -> None:
    """Write the bars and what was reached as a page of Markdown, with a link to a chart."""
    refuse_other_page(path)
    headings, rows = _bar_rows(report.results)
    lines = ["| " + " | ".join(row) + " |" for row in (headings, ["---"] * len(headings), *rows)]
    about = [f"{text}  " for text in headline(report)]  # two spaces end a line
    if chart is not None:
        lines += ["", f"![Each job's ratio beside its bar]({os.path.relpath(chart, Path(path).parent)})"]
    again = "`arraylearn bench` (see its `--help`) measures all of this on your machine."
    text = "\n".join([_TITLE, _ABOUT, "", *lines, "", *about, "", again, ""])
    Path(path).write_text(text, encoding="utf-8")
