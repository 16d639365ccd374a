"""Scratch memory: lent to one array at a time, and again once no view of it is left."""

from __future__ import annotations

import array_api_compat.numpy as xp
import numpy as np

import arraylearn as al
from arraylearn.backend.memory import scratch
from tests.backends.assertions import assert_close


def address(array):
    return array.__array_interface__["data"][0]


def test_arrays_in_use_do_not_share_memory(rung, xp, dtype):
    first = scratch(xp, (40, 50), dtype, rung.device)
    second = scratch(xp, (40, 50), dtype, rung.device)
    first[:, :] = 1.0
    second[:, :] = 2.0
    assert_close(first, np.ones((40, 50)), dtype=dtype)
    del first, second
    third = scratch(xp, (10, 3), dtype, rung.device)
    third[:, :] = 3.0
    assert_close(third, np.full((10, 3), 3.0), dtype=dtype)


def test_memory_is_lent_again_when_the_last_view_is_gone():
    first = scratch(xp, (40, 50), np.float64, "cpu")
    at = address(first)
    part = first.T[3:, ::2].view(np.int64)
    del first
    assert address(scratch(xp, (40, 50), np.float64, "cpu")) != at
    del part
    again = scratch(xp, (20, 60), np.float32, "cpu")
    assert address(again) == at
    assert again.flags.writeable


def test_empty_arrays_and_those_beyond_the_budget_are_made_as_usual():
    assert scratch(xp, (0, 3), np.float32, "cpu").shape == (0, 3)
    al.set_memory_budget(4_000)
    try:
        large = scratch(xp, (1_001,), np.uint8, "cpu")
    finally:
        al.set_memory_budget(None)
    assert large.base is None
