"""Pictures, drawn with matplotlib, which is imported when the first one is drawn."""

from arraylearn.plot.pruning import plot_alpha
from arraylearn.plot.tree import plot_tree

__all__ = ["plot_alpha", "plot_tree"]
