"""Results as a table on the terminal and as a page of Markdown: the same rows in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arraylearn.bench.conditions import quiet_text
from arraylearn.bench.harness import Ratio
from arraylearn.bench.results import BenchReport, Contestant, Result, summarize

__all__ = [
    "headline",
    "markdown",
    "markdown_table",
    "print_report",
    "refuse_without_section",
    "rewrite_section",
    "seconds_text",
    "table_rows",
    "text_table",
]

HEADINGS = (
    "family",
    "case",
    "size",
    "threads",
    "backend",
    "time",
    "rows/s",
    "memory",
    "quality",
    "peer",
    "peer's time",
    "peer's memory",
    "peer's quality",
    "peer / ours (spread)",
)


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


def _figures(one: Contestant) -> tuple[str, str, str, str]:
    """Return time, rows per second, memory and quality."""
    memory = f"{count_text(one.peak_bytes)}B"
    quality = "-" if one.quality is None else f"{one.quality:.5g}"
    return seconds_text(one.seconds), count_text(one.rows_per_second), memory, quality


def _spread(one: Ratio) -> str:
    return f"{one.ratio:.3g} ({one.low:.3g}-{one.high:.3g})"


def _threads(n: int) -> str:
    return "1 thread" if n == 1 else f"{n} threads"


def _shape(one: Result) -> str:
    classes = f", {one.n_classes} cl." if one.n_classes > 1 else ""
    return f"{one.size}: {count_text(one.n_rows)} x {one.n_columns}{classes}"


def table_rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Return a row of text for each peer of each result (one for a result without peers)."""
    rows: list[tuple[str, ...]] = []
    for one in results:
        mine = (one.family, one.case, _shape(one), str(one.threads), one.backend, *_figures(one.ours))
        for name, peer in one.peers.items():
            seconds, _, memory, quality = _figures(peer)
            rows.append((*mine, name, seconds, memory, quality, _spread(one.ratios[name])))
        if not one.peers:
            rows.append((*mine, "-", "-", "-", "-", "-"))
    return rows


def headline(report: BenchReport) -> list[str]:
    """Return lines about the machine, the conditions of the run and what was skipped."""
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    clock = "wall time" if report.clock == "wall" else "processor time"
    lines = [
        f"{report.began}: {machine['processor']}, {machine['usable_cores']} of {machine['cores']} cores, "
        f"{machine['system']}.",
        f"Machine {quiet_text(report.quiet)}: load {report.load_before} before, {report.load_after} after; "
        f"{clock}; {report.seconds:.0f} s in all.",
        f"{versions}.",
    ]
    lines += [f"Left out: {name} ({reason})." for name, reason in report.skipped.items()]
    return lines


def terminal_rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Return a row of text for each result, its peers together in the last cell."""
    rows: list[tuple[str, ...]] = []
    for one in results:
        ratios = [
            f"{name} {_spread(ratio)}, {_figures(one.peers[name])[-1]}" for name, ratio in one.ratios.items()
        ]
        case = f"{one.family}: {one.case}\n  {_shape(one)}; {one.backend}, {_threads(one.threads)}"
        rows.append((case, *_figures(one.ours), "\n".join(ratios) or "-"))
    return rows


def bar_rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return a row of text for each bar that the results bear on."""
    rows: list[tuple[str, ...]] = []
    for one in summarize(results):
        where = f"{one.sizes} ({one.n_cases}); {one.backend}, {_threads(one.threads)}"
        about = f"{one.job}\n  {where}; over {one.peers}"
        rows.append((about, f"{one.mean:.3g}", f"{one.least:.3g}", f"{one.goal:.3g}", one.verdict))
    return rows


_TERMINAL = ("case", "time", "rows/s", "memory", "quality", "peer / ours (spread), peer's quality")
_BAR_HEADINGS = ("job", "peer / ours", "bar", "goal", "")


def print_report(report: BenchReport) -> None:
    """Print the tables on the terminal."""
    from rich.console import Console

    console = Console()
    cases, bars = terminal_rows(report.results), bar_rows(report.results)
    if cases:
        console.print(text_table("Cases: ours, and each peer beside it", _TERMINAL, cases))
    if bars:
        about = "Bars: the geometric mean of the fastest peer's time / ours"
        console.print(text_table(about, _BAR_HEADINGS, bars))
    for text in headline(report):
        console.print(text, markup=False, highlight=False)


def text_table(title: str | None, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return a table for the terminal; rows that end with a missed bar are bold."""
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
        table.add_row(*map(escape, row), style="bold" if row[-1] == "MISSED" else None)
    return table


def markdown(report: BenchReport) -> str:
    """Return the run as a page of Markdown."""
    parts = ["## The last run", *headline(report), ""]
    parts += ["### Bars", markdown_table(_BAR_HEADINGS, bar_rows(report.results)), ""]
    parts += ["### Cases", markdown_table(HEADINGS, table_rows(report.results)), ""]
    return "\n".join(parts)


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(row).replace("\n ", "<br>") + " |" for row in lines)


def _marks(section: str) -> tuple[str, str]:
    return f"<!-- generated: {section} -->", f"<!-- generated: end of {section} -->"


def refuse_without_section(path: str | Path, section: str = "bench") -> None:
    """Raise for a file whose generated section has no marks."""
    path = Path(path)
    marks = _marks(section)
    if path.exists() and not all(mark in path.read_text(encoding="utf-8") for mark in marks):
        raise ValueError(
            f"`results`: {path} has no section to rewrite. Put the two lines {marks[0]!r} and {marks[1]!r} "
            "where the tables belong."
        )


def rewrite_section(path: str | Path, text: str, section: str = "bench") -> None:
    """Put `text` between the two marks of a Markdown file; the rest of the file is not changed."""
    refuse_without_section(path, section)
    path, (begin, end) = Path(path), _marks(section)
    page = path.read_text(encoding="utf-8") if path.exists() else f"# Results\n\n{begin}\n{end}\n"
    head, rest = page.split(begin, 1)
    tail = rest.split(end, 1)[1]
    path.write_text(f"{head}{begin}\n{text}{end}{tail}", encoding="utf-8")
