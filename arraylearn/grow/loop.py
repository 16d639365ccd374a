"""The one loop of growth: all nodes of a level, of all trees of a batch, are split at once.

Single trees, forests, AdaBoost and boosting grow by it; what differs stands in their finders::

    level -- choose --> best splits -- route, count --> read by the host: one sync -- accept, add --> children
      ^                                                                                                  |
      +----------------------- divide: lay out the rows of children that may be split <------------------+
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.grow.builder import Builder, Splits
from arraylearn.grow.divide import Routed, divide_level, keep_nodes, read_splits, route_rows
from arraylearn.grow.finder import Finder, NodeChoice
from arraylearn.grow.rows import Entries, Level, level_of

__all__ = ["grow"]


def grow(finder: Finder, lists: Array, entries: Entries, roots: Any, sizes: Any) -> Builder:
    """Grow trees.

    Parameters
    ----------
    finder : Finder
        Knows the rows, finds their splits and judges them.
    lists : int32 array (d, m)
        The entries of all trees, tree after tree, in the order in which the finder wants them.
    entries : Entries
        What the lists hold.
    roots : array (t, c) on the host
        Class weights, or packed sums, of each tree.
    sizes : int array (t,) on the host
        Its entries.

    Returns
    -------
    Builder
        With all nodes.
    """
    place, rule = finder.place, finder.rule
    builder = Builder(finder.rows, rule, finder.limits, roots)
    level = _first_level(finder, builder, lists, entries, roots, sizes)
    if level is not None:
        level = finder.begin(level)
    while level is not None:
        choice = finder.choose(level)
        routed, splits = _look(finder, builder, level, choice)
        again = finder.choose_again(level, choice, splits)
        if again is not None:
            routed, splits = _look(finder, builder, level, again)
        children = builder.add(level.ids, splits, finder.may_split)
        if not children.ids.shape[0]:
            break
        new = divide_level(place, finder.rows, level, rule, routed, splits, children)
        finder, new = finder.follow(level, children, new)
        level = _finish(finder, builder, new)
    return builder


def _first_level(
    finder: Finder, builder: Builder, lists: Array, entries: Entries, roots: Any, sizes: Any
) -> Level | None:
    """Return the roots that may be split."""
    is_live = finder.may_split(roots, sizes, 0)
    if not bool(np.any(is_live)):
        return None
    level = level_of(finder.place, np.arange(roots.shape[0]), roots, sizes, 0, lists, entries)
    if not bool(np.all(is_live)):
        level = keep_nodes(finder.place, level, is_live)
    return _finish(finder, builder, level)


def _finish(finder: Finder, builder: Builder, level: Level) -> Level | None:
    """Let a compiled body grow all that is below a level; return the level where none serves."""
    rest = finder.finish(level)
    if rest is None:
        return level
    builder.add_all(level.ids, rest.nodes, rest.threshold)
    return None


def _look(finder: Finder, builder: Builder, level: Level, choice: NodeChoice) -> tuple[Routed, Splits]:
    """Send the rows to the branches of the best splits, and read what the host must know to accept them."""
    routed = route_rows(finder.place, finder.rows, level, finder.rule, choice)
    splits = read_splits(finder.place, finder.rows, level, finder.rule, routed)
    return routed, finder.accept(level, splits, builder)
