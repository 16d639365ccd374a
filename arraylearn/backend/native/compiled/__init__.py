"""Bodies for NumPy that Numba compiles: loops over the host's memory that release the interpreter lock.

They stand beside the NumPy bodies of the same names, give the same bits, and may call them for what is rare.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from arraylearn.backend.compiling import get_compiled, is_worth_compiling

__all__ = ["BODIES", "choose_body", "load_body", "module_of"]

Body = Callable[..., Any]

# primitive -> module of this room, or of `backend.arrays`, that holds its compiled body
BODIES: dict[str, str] = {
    "argsort_rows": "arrays.order_cpu",
    "bin_columns": "arrays.bins_cpu",
    "gather_block": "arrays.gather_cpu",
    "number_values": "arrays.bins_cpu",
    "paired_histogram": "arrays.segments_cpu",
    "split_lists": "arrays.blocks_cpu",
}

# Values of a call from which on it runs the compiled body, where that is not `Tuning.compiled_values`.
_LEAST_VALUES = {
    "gather_block": 100_000,
}


def choose_body(name: str, plain: Body | None) -> Body | None:
    """Return the body of a primitive: the compiled one where there is one and it is wanted, or `plain`.

    A primitive without a plain body is one that fuses others: None from its body sends the caller to those.
    """
    mode = get_compiled()
    if name not in BODIES or mode == "never":
        return plain
    if mode == "always" or _LEAST_VALUES.get(name) == 0:
        return load_body(name)
    return _by_size(name, plain)


def module_of(name: str) -> str:
    """Return the full name of the module that holds a compiled body."""
    module = BODIES[name]
    return f"arraylearn.backend.{module}" if "." in module else f"{__name__}.{module}"


@cache
def load_body(name: str) -> Body:
    """Import the module of a compiled body, and Numba with it."""
    module = importlib.import_module(module_of(name))
    body: Body = getattr(module, name)
    return body


@cache
def _by_size(name: str, plain: Body | None) -> Body:
    """Return a body that runs the compiled one where the arguments hold many values."""
    least = _LEAST_VALUES.get(name)

    def call(*arguments: Any) -> Any:
        if is_worth_compiling(_count_values(arguments), least):
            return load_body(name)(*arguments)
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
