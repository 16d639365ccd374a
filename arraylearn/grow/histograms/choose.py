"""Which body grows trees on histograms: the one place where that is decided."""

from __future__ import annotations

from types import ModuleType

from arraylearn.backend.dispatch import why_not_compiled
from arraylearn.backend.namespace import Place

__all__ = ["choose_body"]


def choose_body(place: Place, n_cells: int) -> ModuleType | str:
    """Return the compiled growth, or the sentence why the array program serves.

    Parameters
    ----------
    place : Place
        Where the rows are.
    n_cells : int
        Rows times columns, of all trees.
    """
    reason = why_not_compiled(place, n_cells)
    if reason is not None:
        return reason
    from arraylearn.grow.histograms import grow_cpu

    return grow_cpu
