"""`assert_close`: the same library, dtype, shape, device and values."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np

from arraylearn.backend.namespace import locate
from tests.backends import rungs
from tests.backends.rungs import Rung

__all__ = ["ATOL", "RTOL", "assert_close"]

# Several thousand roundings, but not a wrong formula.  Integers and booleans are compared exactly.
RTOL = {"float32": 2e-5, "float64": 1e-9}
ATOL = {"float32": 1e-6, "float64": 1e-12}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rung: Rung | None = None,
    dtype: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Assert that `actual` is an array of the rung's library on its device, close to `expected`.

    Parameters
    ----------
    actual : the array under test
    expected : an array of the same rung, a NumPy array, or nested lists of numbers
    rung : by default the one the running test is on
    dtype : the dtype `actual` must have (a name or a dtype); by default that of `expected`.  Lists have none:
        then only the kind (boolean, integer, floating) must agree
    rtol, atol : by default 2e-5 and 1e-6 for float32, 1e-9 and 1e-12 for float64; NaN equals NaN
    """
    rung = rung or rungs.current()
    _check_library(actual, rung)
    wanted = _host(expected, rung)
    _check_dtype(actual, expected, wanted, rung, dtype)
    assert tuple(actual.shape) == wanted.shape, f"shape {tuple(actual.shape)}, expected {wanted.shape}"
    found = rung.to_host(actual)
    name = found.dtype.name
    np.testing.assert_allclose(
        found,
        wanted,
        rtol=RTOL.get(name, 0) if rtol is None else rtol,
        atol=ATOL.get(name, 0) if atol is None else atol,
    )


def _check_library(actual: Any, rung: Rung) -> None:
    assert array_api_compat.is_array_api_obj(actual), f"{type(actual)} is not an array"
    namespace = locate(actual).xp
    assert namespace is rung.load(), f"an array of {namespace.__name__}, expected {rung.load().__name__}"
    device = array_api_compat.device(actual)
    assert device == rung.device, f"on device {device}, expected {rung.device}"


def _host(expected: Any, rung: Rung) -> np.ndarray:
    if isinstance(expected, np.ndarray | np.generic) or not array_api_compat.is_array_api_obj(expected):
        return np.asarray(expected)
    _check_library(expected, rung)
    return rung.to_host(expected)


def _check_dtype(actual: Any, expected: Any, wanted: np.ndarray, rung: Rung, dtype: Any) -> None:
    xp = rung.load()
    found = rungs.dtype_name(xp, actual.dtype)
    if dtype is not None:
        name = rungs.dtype_name(xp, dtype)
        assert found == name, f"dtype {found}, expected {name}"
    elif array_api_compat.is_array_api_obj(expected):
        assert found == wanted.dtype.name, f"dtype {found}, expected {wanted.dtype.name}"
    else:
        assert _kind(np.dtype(found)) == _kind(wanted.dtype), (
            f"dtype {found}, expected a kind of {wanted.dtype.name}"
        )


def _kind(dtype: np.dtype) -> str:
    return {"u": "i"}.get(dtype.kind, dtype.kind)
