"""Every kernel case on every rung: equal to NumPy, native equal to portable, and no sync."""

from __future__ import annotations

import array_api_compat.numpy as numpy_namespace
import numpy as np
import pytest

from arraylearn.backend.arrays import distances, gather, gram, linear, moments, order, ragged, segments
from arraylearn.backend.dispatch import portable_only
from arraylearn.grow.drawn_columns import cuts
from arraylearn.selftest.cases import kernel_cases
from tests.backends.assertions import assert_close

CASES = list(kernel_cases())


def run(case, xp, arrays):
    found = case.call(xp, **arrays)
    return found if isinstance(found, tuple) else (found,)


def assert_same_numbers(found, expected, rung):
    # the rungs without float64 sum in float32
    rtol, atol = (None, None) if "float64" in rung.float_dtypes else (2e-4, 2e-4)
    assert len(found) == len(expected)
    for part, wanted in zip(found, expected, strict=True):
        if wanted.dtype.kind == "f":
            wanted = wanted.astype(rung.float_dtypes[-1])
            assert_close(part, wanted, rtol=rtol, atol=atol)
        else:
            assert_close(part, np.asarray(wanted))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_numbers_everywhere(rung, xp, no_sync, case):
    for seed in (0, 1):
        host = case.make_inputs(seed)
        expected = run(case, numpy_namespace, host)
        arrays = {
            name: rung.from_host(value, rung.float_dtypes[-1] if value.dtype.kind == "f" else None)
            for name, value in case.make_inputs(seed).items()
        }
        with no_sync():
            found = run(case, xp, arrays)
        assert_same_numbers(found, expected, rung)
        with portable_only():
            assert_same_numbers(run(case, xp, arrays), expected, rung)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inputs_are_left_alone(case):
    arrays = case.make_inputs(2)
    run(case, numpy_namespace, arrays)
    for name, before in case.make_inputs(2).items():
        np.testing.assert_array_equal(arrays[name], before)


def test_every_primitive_has_a_case():
    names = {case.name.partition("[")[0].rpartition(".")[2] for case in CASES}
    inside = {  # primitives that the cases of public kernels run
        **dict.fromkeys(("CutRules", "Draws"), "best_cuts"),
        **dict.fromkeys(("block_index", "block_max", "first_in_block", "scatter"), "best_cuts"),
        **dict.fromkeys(("split_lists", "steps"), "search_lists"),  # the first: see the tests of blocks
        "diagonal_squares": "diagonal_log_density",
        "gaussian_gram": "gram",
        "grouped_moments": "moments",
        "integer_power": "gram",
        "merge_moments": "moments",
        "Moments": "moments",
        "number_values": "bin_columns",  # syncs: see the tests of trees
        "polynomial_gram": "gram",
        "whitened_exponents": "log_density",
    }
    for module in (cuts, distances, gather, gram, linear, moments, order, ragged, segments):
        for name in (name for name in module.__all__ if callable(getattr(module, name))):
            assert inside.get(name, name) in names, f"give {name} a case in arraylearn/selftest/cases.py"
