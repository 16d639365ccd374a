"""Error against the price of a leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.tree.pruning import AlphaChoice, CostComplexityPath, cost_complexity_path

__all__ = ["plot_alpha"]


def plot_alpha(source: Any, *, ax: Any = None) -> Any:
    """Draw error or risk against the price of a leaf, with the size of the trees above.

    Parameters
    ----------
    source : DecisionTreeClassifier, AlphaChoice or CostComplexityPath
        A fitted tree whose `alpha` was found by cross-validation shows the errors of that, with one standard
        error on each side, the least error and the chosen price; any other one the risk of its path.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default: new axes.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    from matplotlib import pyplot  # an extra of the package

    path, choice = _read_source(source)
    if ax is None:
        _, ax = pyplot.subplots()
    alphas, places = path.ccp_alphas, _places(path.ccp_alphas)
    if choice is None:
        ax.step(places, path.impurities, where="post", marker="o", label="risk on the training rows")
        ax.set_ylabel("risk")
    else:
        ax.errorbar(
            places, choice.errors, choice.standard_errors, marker="o", capsize=3, label="held-out rows"
        )
        limit = choice.errors[choice.best] + choice.standard_errors[choice.best]
        ax.axhline(limit, color="grey", linestyle=":", label="least error + 1 standard error")
        ax.plot(places[choice.best], choice.errors[choice.best], "s", label="least error")
        ax.plot(places[choice.chosen], choice.errors[choice.chosen], "D", label="chosen")
        ax.set_ylabel("error")
    if alphas.shape[0] > 1:
        ax.set_xscale("log")
    ax.set_xlabel("price of a leaf (alpha)")
    for i in _some(len(places)):
        ax.annotate(str(path.n_leaves[i]), (places[i], 1.01), xycoords=("data", "axes fraction"), ha="center")
    ax.set_title("leaves", fontsize="medium", pad=18)
    ax.legend(fontsize="small")
    return ax


def _read_source(source: Any) -> tuple[CostComplexityPath, AlphaChoice | None]:
    if isinstance(source, AlphaChoice):
        return source.path, source
    if isinstance(source, CostComplexityPath):
        return source, None
    if hasattr(source, "alpha_choice_"):
        return source.alpha_choice_.path, source.alpha_choice_
    if hasattr(source, "tree_"):
        return cost_complexity_path(source.tree_), None
    raise TypeError(
        "`source` must be a fitted DecisionTreeClassifier, an AlphaChoice or a CostComplexityPath; "
        f"got {type(source).__name__}."
    )


def _places(alphas: HostArray) -> HostArray:
    """Put the price 0, which a logarithmic axis has no place for, below the least one."""
    least = alphas[1] if alphas.shape[0] > 1 else 1.0
    return np.where(alphas > 0, alphas, least / 2)


def _some(n: int) -> HostArray:
    """Choose a dozen of n positions."""
    return np.unique(np.linspace(0, n - 1, min(n, 12)).astype(int))
