"""Charts of benchmark runs: ratios to the peers with their bars, growth of cost."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["plot_bench", "plot_growth", "refuse_without_matplotlib", "save_chart"]


def refuse_without_matplotlib(argument: str) -> None:
    """Raise where charts cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            f"`{argument}` needs matplotlib, which is not installed: pip install 'arraylearn[plot]'."
        )


def save_chart(figure: Any, path: Any) -> None:
    """Write a chart in the format of the file's name; an SVG file keeps its text as text."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(path)


def plot_bench(summaries: Sequence[Any], title: str) -> Any:
    """Draw the `BarSummary` of each job of ``arraylearn bench`` as a matplotlib figure.

    A dot per number of threads: the peer's time over ours. A stroke: the bar of the job.
    """
    from matplotlib.figure import Figure  # an extra of the package; no window, no global state

    jobs = summaries[::-1]  # the first on top
    figure = Figure(figsize=(9, 1.2 + 0.2 * len(jobs)), layout="constrained")
    axes = figure.subplots()
    for n in sorted({n for one in jobs for n in one.ratios}):
        places = [place for place, one in enumerate(jobs) if n in one.ratios]
        label = "1 thread" if n == 1 else f"{n} threads"
        axes.plot([jobs[place].ratios[n] for place in places], places, "o", markersize=4, label=label)
    axes.vlines(
        [one.least for one in jobs],
        [place - 0.4 for place in range(len(jobs))],
        [place + 0.4 for place in range(len(jobs))],
        color="black",
        label="bar",
    )
    axes.axvline(1.0, color="grey", linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("peer's time / ours (right of the dotted line: ours is faster)")
    axes.set_yticks(range(len(jobs)), [f"{one.job} | {one.beside}" for one in jobs], fontsize=7)
    axes.set_ylim(-0.7, len(jobs) - 0.3)
    axes.legend(fontsize="small")
    figure.suptitle(title, fontsize=9)
    return figure


def plot_growth(report: Any) -> Any:
    """Draw how time and memory grow by a `SlopeReport` of ``arraylearn bench --growth``: a matplotlib figure.

    Time (first row) and memory along rows, columns and classes, on logarithmic axes.
    """
    from matplotlib.figure import Figure

    measured = {one.axis for one in report.slopes}
    axes_names = [name for name in ("n_rows", "n_columns", "n_classes") if name in measured]
    figure = Figure(figsize=(5 * len(axes_names), 9), layout="constrained")
    grid = figure.subplots(2, len(axes_names), squeeze=False)
    for column, axis in enumerate(axes_names):
        for one in report.slopes:
            if one.axis != axis:
                continue
            megabytes = np.asarray(one.peak_bytes) / 1e6
            lines = ((one.seconds, one.time_slope), (megabytes, one.memory_slope))
            for axes, (values, slope) in zip(grid[:, column], lines, strict=True):
                label = f"{one.learner}: {slope:.2f}"
                axes.plot(one.sizes, values, marker="o", markersize=3, label=label)
        for axes, word in zip(grid[:, column], ("seconds of a fit", "peak of a fit, MB"), strict=True):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(axis.removeprefix("n_"))
            axes.set_ylabel(word)
            axes.legend(fontsize=6, title="slope", title_fontsize=6)
    figure.suptitle(f"Growth of cost on {report.backend}, {report.threads} thread(s)", fontsize=10)
    return figure
