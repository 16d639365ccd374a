"""Charts of benchmark runs: ratios to the peers with their bars, rows per second, growth of cost."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

__all__ = ["plot_bench", "plot_growth", "refuse_without_matplotlib"]

_PEER_COLOURS = {
    "scikit-learn": "tab:orange",
    "libsvm": "tab:olive",
    "onedal": "tab:cyan",
    "lightgbm": "tab:green",
    "xgboost": "tab:purple",
    "wittgenstein": "tab:brown",
    "matmul": "tab:grey",
    "bincount": "tab:pink",
    "loop": "black",
}


def refuse_without_matplotlib(argument: str) -> None:
    """Raise where charts cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            f"`{argument}` needs matplotlib, which is not installed: pip install 'arraylearn[plot]'."
        )


def _figure(n_columns: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # an extra of the package; no window, no global state

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, n_columns, squeeze=False)[0]


def plot_bench(report: Any) -> Any:
    """Draw a run of ``arraylearn bench``.

    Parameters
    ----------
    report : arraylearn.bench.BenchReport
        What `arraylearn.bench.run_bench` returned, or an earlier run that was read from its file.

    Returns
    -------
    matplotlib.figure.Figure
        Left the peers' times over ours with the spread of the turns and the bars, right rows per second.
    """
    results = list(reversed(report.results))
    figure, (left, right) = _figure(2, 13, 1.5 + 0.28 * len(results))
    names = [f"{one.family}: {one.case}\n{one.size}, {one.backend}, {one.threads} thr." for one in results]
    labelled: set[str] = set()
    for place, one in enumerate(results):
        for peer, ratio in one.ratios.items():
            left.errorbar(
                ratio.ratio,
                place,
                xerr=[[max(0.0, ratio.ratio - ratio.low)], [max(0.0, ratio.high - ratio.ratio)]],
                marker="o",
                markersize=4,
                color=_PEER_COLOURS.get(peer, "tab:red"),
                label=None if peer in labelled else peer,
            )
            labelled.add(peer)
        for peers, least in one.bars.items():
            if any(peer in one.ratios for peer in peers.split(" or ")):
                colour = _PEER_COLOURS.get(peers, "tab:red")  # red for the fastest of several
                left.plot([least] * 2, [place - 0.4, place + 0.4], color=colour, linewidth=2)
    left.axvline(1.0, color="grey", linestyle=":")
    left.set_xscale("log")
    left.set_xlabel("peer's time / ours (right of 1: ours is faster); strokes: the bars")
    left.set_yticks(range(len(names)), names, fontsize=6)
    if labelled:
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
    """Draw how time and memory grow.

    Parameters
    ----------
    report : arraylearn.bench.cost_slopes.SlopeReport
        What `arraylearn.bench.cost_slopes.measure_slopes` returned.

    Returns
    -------
    matplotlib.figure.Figure
        Time (first row of each pair) and memory along rows, columns and classes, on logarithmic axes.
    """
    from matplotlib.figure import Figure

    axes_names = sorted({one.axis for one in report.slopes}, key=("n_rows", "n_columns", "n_classes").index)
    figure = Figure(figsize=(5 * len(axes_names), 9), layout="constrained")
    grid = figure.subplots(2, len(axes_names), squeeze=False)
    for column, axis in enumerate(axes_names):
        for one in report.slopes:
            if one.axis != axis:
                continue
            for row, (values, slope) in enumerate(
                ((one.seconds, one.time_slope), (np.asarray(one.peak_bytes) / 1e6, one.memory_slope))
            ):
                label = f"{one.learner}: {slope:.2f}"
                grid[row][column].plot(one.sizes, values, marker="o", markersize=3, label=label)
        for row, word in enumerate(("seconds of a fit", "peak of a fit, MB")):
            axes = grid[row][column]
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(axis.removeprefix("n_"))
            axes.set_ylabel(word)
            axes.legend(fontsize=6, title="slope", title_fontsize=6)
    figure.suptitle(f"Growth of cost on {report.backend}, {report.threads} thread(s)", fontsize=10)
    return figure
