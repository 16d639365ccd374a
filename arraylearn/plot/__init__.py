"""Pictures, drawn with matplotlib, which is imported when the first one is drawn."""

from arraylearn.plot.tree import plot_tree

__all__ = ["plot_tree"]
