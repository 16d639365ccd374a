"""Pictures, drawn with matplotlib, which is imported when the first one is drawn."""

from arraylearn.plot.drawn_tree import plot_tree
from arraylearn.plot.price_of_leaves import plot_alpha

__all__ = ["plot_alpha", "plot_tree"]
