"""Bodies for NumPy that Numba compiles: loops over the host's memory that release the interpreter lock.

They stand beside the NumPy bodies of the same names, give the same bits, and may call them for what is rare.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from arraylearn.backend.compiling import MANY_VALUES, get_compiled, is_numba_installed

__all__ = ["BODIES", "choose_body"]

Body = Callable[..., Any]

# primitive -> module of this room that holds its compiled body
BODIES: dict[str, str] = {
    "add_to_sides": "boosting",
    "argsort_rows": "order",
    "bin_columns": "bins",
    "block_histograms": "boosting",
    "follow_thresholds": "descent",
    "gather_block": "quadratic",
    "grow_bins": "grow_bins",
    "grow_boosted_trees": "grow_boosted",
    "grow_whole_trees": "forest",
    "histogram_cells": "boosting",
    "log_loss_gradients": "gradients",
    "number_values": "distinct",
    "paired_histogram": "histograms",
    "prepare_walk": "walks",
    "reach_leaves": "walks",
    "search_splits": "splits",
    "solve_box_block": "quadratic",
    "split_blocks": "boosting",
    "split_lists": "split_lists",
    "sum_leaves": "planes",
    "sum_shares": "walks",
}

# Values of a call from which on it runs the compiled body, where that is not `MANY_VALUES`.
_LEAST_VALUES = {
    "gather_block": 100_000,
    "grow_whole_trees": 0,  # the caller chooses: see `is_grown_whole`
    "histogram_cells": MANY_VALUES // 2,  # `grow_boosted_trees` is called with bins and as many cells
    "solve_box_block": 100_000,  # two matrices of a working set
}


def choose_body(name: str, plain: Body | None) -> Body | None:
    """Return the body of a primitive: the compiled one where there is one and it is wanted, or `plain`.

    A primitive without a plain body is one that fuses others: None from its body sends the caller to those.
    """
    mode = get_compiled()
    if name not in BODIES or mode == "never" or not is_numba_installed():
        return plain
    if mode == "always" or _LEAST_VALUES.get(name) == 0:
        return _load(name)
    return _by_size(name, plain)


@cache
def _load(name: str) -> Body:
    module = importlib.import_module(f"{__name__}.{BODIES[name]}")
    body: Body = getattr(module, name)
    return body


@cache
def _by_size(name: str, plain: Body | None) -> Body:
    """Return a body that runs the compiled one where the arguments hold many values."""
    least = _LEAST_VALUES.get(name, MANY_VALUES)

    def call(*arguments: Any) -> Any:
        if _count_values(arguments) >= least:
            return _load(name)(*arguments)
        return None if plain is None else plain(*arguments)

    return call


def _count_values(arguments: tuple[Any, ...]) -> int:
    """Count the values of arrays, and of those in records."""
    total = 0
    for argument in arguments:
        if isinstance(argument, tuple):
            total += _count_values(argument)
        elif isinstance(size := getattr(argument, "size", 0), int):
            total += size
    return total
