"""The one loop of growth: the nodes of a level, of all trees of a batch, are split at once.

Single trees, forests and boosting are three programs of the same three steps::

    level -- search --> cuts (read by the host: one sync) -- add --> children -- divide --> next level
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

__all__ = ["GrowthProgram", "grow_levels"]

Level = TypeVar("Level")


class GrowthProgram(Protocol[Level]):
    """How the trees of a family grow. What is found for a level, and its children, are records of its own."""

    def search(self, level: Level) -> Any:
        """Find the best cut of each node, and read it."""

    def add(self, level: Level, found: Any) -> Any:
        """Split the nodes whose cut is good enough; return their children, on the host."""

    def divide(self, level: Level, found: Any, children: Any) -> Level | None:
        """Send the rows to the children; return those that may be split, None where there are none."""


def grow_levels(program: GrowthProgram[Level], level: Level | None) -> None:
    """Grow all that is below a level."""
    while level is not None:
        found = program.search(level)
        children = program.add(level, found)
        level = program.divide(level, found, children)
