"""A tree as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.grow.trees import Trees, tree_on_host
from arraylearn.tree.text import branch_condition

__all__ = ["plot_tree"]


def plot_tree(
    estimator: Any,
    *,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
    max_depth: int | None = None,
    fontsize: float = 8.0,
) -> Any:
    """Draw a fitted tree with matplotlib.

    Parameters
    ----------
    estimator : DecisionTreeClassifier
        Fitted.
    feature_names : sequence of str, optional
        Names of the columns; default: those of the data frame seen in fit, or x0, x1, ...
    ax : matplotlib.axes.Axes, optional
        Where to draw; default: new axes.
    max_depth : int, optional
        Deeper nodes are left out.
    fontsize : float
        Size of the text.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    from matplotlib import pyplot  # an extra of the package

    if ax is None:
        _, ax = pyplot.subplots()
    tree, schema = tree_on_host(estimator.tree_), estimator.schema_.with_names(feature_names)
    x, is_shown = _places(tree, max_depth)
    is_leaf, parents = tree.is_leaf, tree.parent
    colors = pyplot.get_cmap("Pastel1")
    for node in np.flatnonzero(is_shown):
        label = int(tree.probability[node].argmax())
        ends = is_leaf[node] or tree.depth[node] == max_depth
        head = str(estimator.classes_[label]) if ends else schema.columns[int(tree.feature[node])].name
        text = f"{head}\n{', '.join(f'{count:g}' for count in tree.counts[node])}"
        place = (x[node], -float(tree.depth[node]))
        box = {"boxstyle": "round", "facecolor": colors(label % 9) if ends else "white", "edgecolor": "grey"}
        if node:
            parent = int(parents[node])
            above = (x[parent], -float(tree.depth[parent]))
            branch = int(node) - int(tree.first_child[parent])
            condition = branch_condition(tree, schema, parent, branch)
            name = schema.columns[int(tree.feature[parent])].name
            ax.plot([above[0], place[0]], [above[1], place[1]], color="grey", linewidth=0.8, zorder=1)
            middle = ((above[0] + place[0]) / 2, (above[1] + place[1]) / 2)
            shown = condition.removeprefix(name).strip()
            ax.text(*middle, shown, fontsize=fontsize * 0.9, ha="center", va="center", color="dimgrey")
        ax.text(*place, text, fontsize=fontsize, ha="center", va="center", bbox=box, zorder=2)
    ax.set_xlim(-1, x[is_shown].max() + 1)
    ax.set_ylim(-float(tree.depth[is_shown].max()) - 0.5, 0.5)
    ax.set_axis_off()
    return ax


def _places(tree: Trees, max_depth: int | None) -> tuple[HostArray, HostArray]:
    """Return the horizontal place of each node, leaves side by side, and whether it is drawn."""
    is_end, x, n_ends = tree.is_leaf | (tree.depth == max_depth), np.zeros(tree.n_nodes), 0
    stack, inner = [0], []
    while stack:
        node = stack.pop()
        if is_end[node]:
            x[node] = n_ends
            n_ends += 1
        else:
            children = np.arange(tree.n_branches[node]) + tree.first_child[node]
            inner.append((node, children))
            stack += children[::-1].tolist()
    for node, children in reversed(inner):
        x[node] = x[children].mean()
    return x, tree.depth <= (np.inf if max_depth is None else max_depth)
