"""Charts of benchmark runs: ratios to the peers with their bars, rows per second, growth of cost."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

__all__ = ["plot_bench", "plot_growth", "refuse_without_matplotlib"]


def refuse_without_matplotlib(argument: str) -> None:
    """Raise where charts cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            f"`{argument}` needs matplotlib, which is not installed: pip install 'arraylearn[plot]'."
        )


def plot_bench(report: Any) -> Any:
    """Draw a `BenchReport` of ``arraylearn bench`` as a matplotlib figure.

    Left the peers' times over ours with the spread of the turns and the bars, right rows per second.
    """
    from matplotlib.figure import Figure  # an extra of the package; no window, no global state

    results = list(reversed(report.results))
    figure = Figure(figsize=(13, 1.5 + 0.28 * len(results)), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = [f"{one.family}: {one.case}\n{one.size}, {one.backend}, {one.threads} thr." for one in results]
    colours: dict[str, str] = {}  # of the peers
    for place, one in enumerate(results):
        for peer, ratio in one.ratios.items():
            left.errorbar(
                ratio.ratio,
                place,
                xerr=[[max(0.0, ratio.ratio - ratio.low)], [max(0.0, ratio.high - ratio.ratio)]],
                marker="o",
                markersize=4,
                label=None if peer in colours else peer,
                color=colours.setdefault(peer, f"C{len(colours)}"),
            )
        for peers, least in one.bars.items():
            if any(peer in one.ratios for peer in peers.split(" or ")):
                colour = colours.get(peers, "black")  # black for the fastest of several
                left.plot([least] * 2, [place - 0.4, place + 0.4], color=colour, linewidth=2)
    left.axvline(1.0, color="grey", linestyle=":")
    left.set_xscale("log")
    left.set_xlabel("peer's time / ours (right of 1: ours is faster); strokes: the bars")
    left.set_yticks(range(len(names)), names, fontsize=6)
    if colours:
        left.legend(fontsize="small")
    right.barh(range(len(names)), [one.ours.rows_per_second for one in results], color="tab:blue")
    right.set_xscale("log")
    right.set_xlabel("rows per second, ours")
    right.set_yticks(range(len(names)), [])
    for axes in (left, right):
        axes.set_ylim(-0.7, len(names) - 0.3)
    state = {True: "quiet", False: "not quiet", None: "not known to be quiet"}[report.quiet]
    figure.suptitle(f"arraylearn bench, {report.began}, {report.machine['processor']} ({state})", fontsize=9)
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
