"""The loop of growth: all nodes of a level, of all trees of a batch, are split at once.

Single trees, forests and boosting share it; they differ in their finders::

    level -- choose --> best splits -- route, count --> read by the host: one sync -- accept, add --> children
      ^                                                                                                  |
      +----------------------- divide: lay out the rows of children that may be split <------------------+
"""

from __future__ import annotations

import numpy as np

from arraylearn.grow.builder import Builder, Splits
from arraylearn.grow.divide import Routed, divide_level, keep_nodes, read_splits, route_rows
from arraylearn.grow.finder import Finder, NodeChoice
from arraylearn.grow.rows import Level, Roots, level_of

__all__ = ["grow"]


def grow(finder: Finder, roots: Roots) -> Builder:
    """Grow trees from roots whose lists are in the order that the finder needs; return all their nodes."""
    place, rule = finder.place, finder.rule
    builder = Builder(finder.rows, rule, finder.limits, roots.counts)
    level = _first_level(finder, roots)
    while level is not None:
        below = finder.finish(level)
        if below is not None:  # a compiled body has grown all subtrees
            builder.add_all(level.ids, below)
            break
        if level.depth == 0:
            level = finder.begin(level)
        choice = finder.choose(level)
        routed, splits = _look(finder, builder, level, choice)
        again = finder.choose_again(level, choice, splits)
        if again is not None:
            routed, splits = _look(finder, builder, level, again)
        children = builder.add(level.ids, splits, finder.may_split)
        if not children.ids.shape[0]:
            break
        new = divide_level(place, finder.rows, level, rule, routed, splits, children)
        finder, level = finder.follow(level, children, new)
    return builder


def _first_level(finder: Finder, roots: Roots) -> Level | None:
    """Return the roots that may be split."""
    place, (lists, entries, counts, sizes) = finder.place, roots
    is_live = finder.may_split(counts, sizes, 0)
    if not bool(np.any(is_live)):
        return None
    level = level_of(place, np.arange(sizes.shape[0]), counts, sizes, 0, lists, entries)
    return level if bool(np.all(is_live)) else keep_nodes(place, level, is_live)


def _look(finder: Finder, builder: Builder, level: Level, choice: NodeChoice) -> tuple[Routed, Splits]:
    """Find the branches that rows take by the best splits, and read the sums that `accept` needs."""
    routed = route_rows(finder.place, finder.rows, level, finder.rule, choice)
    splits = read_splits(finder.place, finder.rows, level, finder.rule, routed)
    return routed, finder.accept(level, splits, builder)
