"""Bugs planted on purpose: each is harmless on NumPy and caught by the rungs that it names.

A ladder that never fails proves nothing. Every program here returns what it should on NumPy; on the rungs of
`caught_by` it must raise, or give another answer, inside `forbid_syncs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_compat.numpy as numpy_namespace
import numpy as np
import pytest

from tests.backends import static_check
from tests.backends.assertions import assert_close

X = np.array([[1.0, 2.0, 4.0], [2.0, 5.0, 3.0], [4.0, 3.0, 9.0]], dtype="float32")
SINGULAR = np.ones((3, 3), dtype="float32")
KEYS = np.array([0, 2, 1], dtype="int64")


@dataclass(frozen=True)
class Bug:
    name: str
    program: Callable[[Any, Any, Any, Any], Any]  # (xp, x, keys, device)
    caught_by: frozenset[str]
    data: np.ndarray = None  # type: ignore[assignment]

    def inputs(self) -> np.ndarray:
        return X if self.data is None else self.data


def forgets_the_device(xp, x, keys, device):
    return x + xp.ones((3,), dtype=x.dtype)


def goes_through_numpy(xp, x, keys, device):
    return xp.asarray(np.cumsum(np.asarray(x), axis=0), device=device)


def selects_by_a_mask(xp, x, keys, device):
    return xp.sum(x[x > 2.5])


def asks_for_a_number(xp, x, keys, device):
    return x / float(xp.max(x))


def branches_on_values(xp, x, keys, device):
    return -x if xp.any(x > 8) else x


def mixes_integers_and_floats(xp, x, keys, device):
    return x * keys


def indexes_past_the_end(xp, x, keys, device):
    rows = keys + 1  # the last row does not exist; only a range check that NumPy also makes can see it
    return xp.take(x, rows, axis=0) if xp is not numpy_namespace else np.take(x, rows, axis=0, mode="wrap")


def trusts_the_exception_of_cholesky(xp, x, keys, device):
    try:
        return xp.linalg.cholesky(x - 2.0 * xp.eye(3, dtype=x.dtype, device=device))
    except np.linalg.LinAlgError:
        return xp.zeros_like(x)


def needs_double_precision(xp, x, keys, device):
    return xp.astype(xp.sum(xp.astype(x, xp.float64)), xp.float32)


def relies_on_the_default_dtype(xp, x, keys, device):
    return xp.ones((3,), device=device)


def multiplies_integer_matrices(xp, x, keys, device):
    return keys[None, :] @ keys[:, None]


def reads_what_was_never_written(xp, x, keys, device):
    make = xp.zeros if xp is numpy_namespace else xp.empty
    total = make((3,), dtype=x.dtype, device=device)
    total[:2] = 1.0  # NumPy's fresh memory is often zero, which hides that the last one is missing
    return xp.sum(total)


def lets_the_last_writer_win(xp, x, keys, device):
    n = 5000
    result = xp.zeros((1,), dtype=xp.int64, device=device)
    result[xp.zeros((n,), dtype=xp.int64, device=device)] = xp.arange(n, dtype=xp.int64, device=device)
    return result


def adds_in_single_precision(xp, x, keys, device):
    """The order of additions shows in the last bits; the answer must not be compared bit by bit."""
    terms = xp.astype(xp.arange(20000, device=device) % 997, xp.float32) / 7
    if hasattr(terms, "index_add_"):
        one = xp.zeros((20000,), dtype=xp.int64, device=device)
        return xp.zeros((1,), dtype=xp.float32, device=device).index_add_(0, one, terms)
    total = np.zeros(1, dtype="float32")
    np.add.at(total, np.zeros(20000, dtype=int), terms)
    return total


def passes_the_axis_by_position(xp, x, keys, device):
    return xp.sum(x, 0)


def clips(xp, x, keys, device):
    return xp.clip(x, 2.0, 3.0)


def takes_a_row_with_an_index_array(xp, x, keys, device):
    return x[keys]


GPU = frozenset({"fake_cuda", "cupy", "cupy_nvrtc"})
CUPY = frozenset({"cupy", "cupy_nvrtc"})
STRICT = frozenset({"strict", "strict_float32"})

BUGS = [
    Bug("missing device=", forgets_the_device, STRICT | {"fake_cuda"}),
    Bug("implicit NumPy", goes_through_numpy, STRICT | GPU),
    Bug("mask in a kernel", selects_by_a_mask, STRICT | GPU),
    Bug("float(x) in a kernel", asks_for_a_number, STRICT | GPU),
    Bug("if on values", branches_on_values, STRICT | GPU),
    Bug("int/float promotion", mixes_integers_and_floats, STRICT),
    Bug("out-of-range index", indexes_past_the_end, STRICT | {"torch", "fake_cuda"}),
    Bug("unchecked Cholesky", trusts_the_exception_of_cholesky, GPU | {"torch"}, SINGULAR),
    Bug("hidden float64", needs_double_precision, frozenset({"strict_float32"})),
    Bug("default dtype", relies_on_the_default_dtype, frozenset({"torch", "fake_cuda", "strict_float32"})),
    Bug("integer matmul", multiplies_integer_matrices, frozenset({"fake_cuda"})),
    Bug("empty memory", reads_what_was_never_written, GPU),
    Bug("last writer wins", lets_the_last_writer_win, GPU | STRICT),
    Bug("order of additions", adds_in_single_precision, frozenset({"fake_cuda"})),
    Bug("axis by position", passes_the_axis_by_position, STRICT),
    Bug("clip waits", clips, CUPY),
    Bug("index array on a matrix", takes_a_row_with_an_index_array, STRICT),
]


def run(bug: Bug, rung: Any) -> Any:
    x, keys = rung.from_host(bug.inputs()), rung.from_host(KEYS)
    with rung.forbid_syncs():
        return bug.program(rung.load(), x, keys, rung.device)


def expected(bug: Bug) -> np.ndarray:
    return np.asarray(bug.program(numpy_namespace, bug.inputs(), KEYS, "cpu"))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_is_caught_by_the_rungs_it_names(rung, bug):
    if rung.name not in bug.caught_by:
        if rung.name == "numpy":
            np.testing.assert_array_equal(run(bug, rung), expected(bug))
        return
    wanted = expected(bug)
    with pytest.raises((AssertionError, RuntimeError, TypeError, ValueError, IndexError, AttributeError)):
        assert_close(run(bug, rung), wanted, rung=rung, rtol=0, atol=0)


def test_every_bug_has_a_rung_and_there_are_enough():
    assert len(BUGS) >= 10
    assert all(bug.caught_by for bug in BUGS)


@pytest.mark.parametrize(
    "call", ["xp.bincount(keys)", "xp.sum(x, 0)", "xp.clip(x, 0, 1)", "xp.argsort(x, kind='stable')"]
)
def test_rung_0_catches_without_running(tmp_path, call):
    path = tmp_path / "kernel.py"
    path.write_text(f"def kernel(xp, x, keys):\n    return {call}\n")
    assert len(static_check.check([path])) >= 1
