"""Trees as text: in the styles of C4.5 and rpart, as graphviz source, and one rule per leaf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from arraylearn.grow.trees import LEAF, NO_MAP, Trees, tree_on_host
from arraylearn.table import Schema

__all__ = ["branch_condition", "graphviz_source", "leaf_rules", "tree_text"]

# More categories than this are shortened in a condition.
_SHOWN_CATEGORIES = 8


class _View(NamedTuple):
    """A fitted tree with its names, on the host."""

    tree: Trees
    schema: Schema
    classes: list[str]

    @classmethod
    def of(cls, estimator: Any, feature_names: Sequence[str] | None) -> _View:
        schema = estimator.schema_.with_names(feature_names)
        return cls(tree_on_host(estimator.tree_), schema, [str(label) for label in estimator.classes_])

    def label(self, node: int) -> str:
        return self.classes[int(self.tree.probability[node].argmax())]

    def weight(self, node: int) -> float:
        return float(self.tree.counts[node].sum())

    def errors(self, node: int) -> float:
        return self.weight(node) - float(self.tree.counts[node].max())

    def is_leaf(self, node: int) -> bool:
        return bool(self.tree.first_child[node] == LEAF)

    def children(self, node: int) -> range:
        first = int(self.tree.first_child[node])
        return range(first, first + int(self.tree.n_branches[node]))


def branch_condition(tree: Trees, schema: Schema, node: int, branch: int) -> str:
    """Write the condition of a branch of a node of a host tree, such as ``"age <= 41"``."""
    column = schema.columns[int(tree.feature[node])]
    start = int(tree.map_start[node])
    if start == NO_MAP:
        return f"{column.name} {'<=' if branch == 0 else '>'} {float(tree.threshold[node]):.6g}"
    domain = column.domain or ()
    branches = tree.category_branch[start : start + len(domain)]
    names = [str(domain[code]) for code in np.nonzero(branches == branch)[0]]
    if len(names) == 1:
        return f"{column.name} = {names[0]}"
    shown = ", ".join(names[:_SHOWN_CATEGORIES]) + (", ..." if len(names) > _SHOWN_CATEGORIES else "")
    return f"{column.name} in {{{shown}}}"


def _walk(view: _View) -> Iterator[tuple[int, int, str]]:
    """Yield node, depth and the condition that leads to it, parents before children, left to right."""
    stack = [(0, 0, "")]
    while stack:
        node, depth, condition = stack.pop()
        yield node, depth, condition
        below = [
            (child, depth + 1, branch_condition(view.tree, view.schema, node, branch))
            for branch, child in enumerate(view.children(node))
        ]
        stack += reversed(below)


def tree_text(
    estimator: Any,
    *,
    feature_names: Sequence[str] | None = None,
    style: Literal["c45", "rpart"] = "c45",
    max_depth: int | None = None,
) -> str:
    """Print a fitted tree.

    Parameters
    ----------
    estimator : DecisionTreeClassifier
        Fitted.
    feature_names : sequence of str, optional
        Names of the columns; default: those of the data frame seen in fit, or x0, x1, ...
    style : {"c45", "rpart"}
        "c45": one line per branch, leaves with their weight and errors. "rpart": one line per node with its
        weight, errors, class and class shares; leaves end with a star.
    max_depth : int, optional
        Deeper nodes are left out.

    Returns
    -------
    str
        Lines of text.

    Examples
    --------
    >>> from arraylearn import id3
    >>> from arraylearn.tree import tree_text
    >>> X = [["sunny", "weak"], ["rain", "weak"], ["rain", "strong"]]
    >>> print(tree_text(id3().fit(X, ["no", "yes", "no"])))
    x0 = rain
    |   x1 = strong: no (1.0)
    |   x1 = weak: yes (1.0)
    x0 = sunny: no (1.0)
    """
    if style not in ("c45", "rpart"):
        raise ValueError(f"`style` must be 'c45' or 'rpart'; got {style!r}.")
    view = _View.of(estimator, feature_names)
    lines = _rpart_header(view) if style == "rpart" else []
    for node, depth, condition in _walk(view):
        if max_depth is not None and depth > max_depth:
            continue
        ends = view.is_leaf(node) or depth == max_depth
        if style == "rpart":
            lines.append(_rpart_entry(view, node, depth, condition or "root", ends))
        elif node or ends:
            lines.append(_c45_entry(view, node, depth, condition, ends))
    return "\n".join(lines)


def _c45_entry(view: _View, node: int, depth: int, condition: str, ends: bool) -> str:
    indent = "|   " * (depth - 1)
    if not ends:
        return f"{indent}{condition}"
    errors = view.errors(node)
    tail = f"/{errors:.1f}" if errors > 1e-9 else ""
    return f"{indent}{condition}: {view.label(node)} ({view.weight(node):.1f}{tail})"


def _rpart_header(view: _View) -> list[str]:
    return [
        f"n= {view.weight(0):g}",
        "",
        "node), split, n, loss, yval, (yprob)",
        "      * denotes terminal node",
        "",
    ]


def _rpart_entry(view: _View, node: int, depth: int, condition: str, ends: bool) -> str:
    shares = " ".join(f"{share:.4f}" for share in view.tree.probability[node])
    entry = f"{'  ' * depth}{node + 1}) {condition} {view.weight(node):g} {view.errors(node):g} "
    return f"{entry}{view.label(node)} ({shares})" + (" *" if ends else "")


def leaf_rules(estimator: Any, *, feature_names: Sequence[str] | None = None) -> list[str]:
    """Write each leaf of a fitted tree as a rule.

    Parameters
    ----------
    estimator : DecisionTreeClassifier
        Fitted.
    feature_names : sequence of str, optional
        Names of the columns; default: those of the data frame seen in fit, or x0, x1, ...

    Returns
    -------
    list of str
        ``"a and b -> class (weight/errors)"``, left to right.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree import leaf_rules
    >>> leaf_rules(DecisionTreeClassifier().fit([[1.0], [2.0], [3.0]], ["a", "b", "b"]))
    ['x0 <= 1.5 -> a (1.0)', 'x0 > 1.5 -> b (2.0)']
    """
    view = _View.of(estimator, feature_names)
    rules: list[str] = []
    path: list[str] = []
    for node, depth, condition in _walk(view):
        path[max(0, depth - 1) :] = [condition] if node else []
        if view.is_leaf(node):
            errors = view.errors(node)
            tail = f"/{errors:.1f}" if errors > 1e-9 else ""
            premise = " and ".join(path) or "true"
            rules.append(f"{premise} -> {view.label(node)} ({view.weight(node):.1f}{tail})")
    return rules


def graphviz_source(
    estimator: Any, *, feature_names: Sequence[str] | None = None, max_depth: int | None = None
) -> str:
    r"""Write a fitted tree as a graph in the DOT language.

    Parameters
    ----------
    estimator : DecisionTreeClassifier
        Fitted.
    feature_names : sequence of str, optional
        Names of the columns; default: those of the data frame seen in fit, or x0, x1, ...
    max_depth : int, optional
        Deeper nodes are left out.

    Returns
    -------
    str
        Source for ``dot -Tsvg``.

    Examples
    --------
    >>> from arraylearn import DecisionTreeClassifier
    >>> from arraylearn.tree import graphviz_source
    >>> print(graphviz_source(DecisionTreeClassifier().fit([[1.0], [2.0]], ["a", "b"])))
    digraph tree {
      node [shape=box, style=rounded, fontname="helvetica"];
      edge [fontname="helvetica"];
      n0 [label="x0\n2 rows\n1, 1"];
      n1 [label="a\n1 rows\n1, 0", style="rounded,filled"];
      n0 -> n1 [label="<= 1.5"];
      n2 [label="b\n1 rows\n0, 1", style="rounded,filled"];
      n0 -> n2 [label="> 1.5"];
    }
    """
    view = _View.of(estimator, feature_names)
    lines = [
        "digraph tree {",
        '  node [shape=box, style=rounded, fontname="helvetica"];',
        '  edge [fontname="helvetica"];',
    ]
    parents = view.tree.parent
    for node, depth, condition in _walk(view):
        if max_depth is not None and depth > max_depth:
            continue
        ends = view.is_leaf(node) or depth == max_depth
        head = view.label(node) if ends else view.schema.columns[int(view.tree.feature[node])].name
        counts = ", ".join(f"{count:g}" for count in view.tree.counts[node])
        text = _quoted(head) + f"\\n{view.weight(node):g} rows\\n{counts}"
        lines.append(f'  n{node} [label="{text}"' + (', style="rounded,filled"];' if ends else "];"))
        if node:
            parent = int(parents[node])
            name = view.schema.columns[int(view.tree.feature[parent])].name
            lines.append(f'  n{parent} -> n{node} [label="{_quoted(condition.removeprefix(name).strip())}"];')
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
