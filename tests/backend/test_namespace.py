"""Data moves once, only where asked, and keeps its dtype."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.namespace import (
    HOST,
    Place,
    accumulator_dtype,
    from_host,
    is_array,
    is_on_gpu,
    is_on_host,
    locate,
    move,
    native_float,
    read_flags,
    same_place,
    synchronize,
    to_host,
)
from tests.backends.assertions import assert_close


@pytest.fixture
def place(rung):
    return Place(rung.load(), rung.device)


def test_locate(rung, place):
    assert same_place(locate(rung.from_host(np.zeros(2, dtype="float32"))), place)
    for x in ([[1]], np.zeros(2), 3.0, None):
        assert locate(x) is HOST


@pytest.mark.parametrize("kind", ["float32", "int64", "int32", "uint8", "bool"])
def test_round_trip(place, kind):
    x = np.array([[0, 1, 1], [1, 0, 0]], dtype=kind)
    there = from_host(x, place)
    assert_close(there, x)
    back = to_host(there)
    assert isinstance(back, np.ndarray)
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)


def test_move_is_free_where_data_is_at_home(rung, place):
    x = rung.from_host(np.arange(3))
    assert move(x, place) is x
    assert_close(move(np.arange(3), place), np.arange(3))
    np.testing.assert_array_equal(move(x, HOST), np.arange(3))


def test_awkward_host_memory(place):
    x = np.arange(12, dtype="float32").reshape(3, 4)
    assert_close(from_host(x[::-1, ::-1], place), x[::-1, ::-1].copy())
    x.flags.writeable = False
    assert_close(from_host(x, place), x)


def test_float64_becomes_float32_only_where_it_must(rung, place):
    there = from_host(np.ones(2), place)
    assert_close(there, np.ones(2, dtype=rung.float_dtypes[-1]))
    assert accumulator_dtype(place) == there.dtype


def test_native_float_follows_the_input(rung, place, dtype):
    xp = rung.load()
    assert native_float(rung.from_host(np.ones(1), dtype), place) == dtype
    assert native_float(rung.from_host(np.ones(1, dtype="int64")), place) == accumulator_dtype(place)
    assert native_float([1, 2], place) == accumulator_dtype(place)
    assert xp.isdtype(accumulator_dtype(place), "real floating")


def test_read_flags_syncs_once(rung, place):
    x = rung.from_host(np.arange(3))
    xp = rung.load()
    flags = [xp.any(x > 1), xp.any(x > 5), xp.all(x >= 0)]
    before = rung.counts()
    assert read_flags(place, *flags) == [True, False, True]
    assert before is None or rung.counts()["syncs"] - before["syncs"] == 1
    assert read_flags(place) == []


def test_synchronize(rung, place):
    assert synchronize(place) is None


def test_places_on_the_host_and_on_a_gpu(rung, place):
    assert is_on_host(HOST)
    assert not is_on_gpu(HOST)
    assert is_on_host(place) == (rung.name in ("numpy", "compiled", "torch"))
    assert is_on_gpu(place) == (rung.name in ("fake_cuda", "cupy", "cupy_nvrtc"))


def test_is_array(rung):
    assert is_array(rung.from_host(np.zeros(1, dtype="float32")))
    assert not is_array([1.0])
