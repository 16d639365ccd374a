"""Stands in for cupy.cuda.thrust: sorts with NumPy, directly in the "device" memory.

Thrust's sorts of plain numbers are stable (radix or merge sort), so numpy is asked for a stable order too.
"""

import ctypes

import numpy as np

available = True
SORTABLE = set("?bhilqBHILQefdFD")


def get_build_version():
    return 300102


def sort(dtype, data_start, keys_start, shape):
    _check(dtype, NotImplementedError)
    data = _view(data_start, shape, dtype)
    data[...] = np.sort(data, axis=-1, kind="stable")


def argsort(dtype, idx_start, data_start, keys_start, shape):
    _check(dtype, NotImplementedError)
    data = _view(data_start, shape, dtype)
    order = np.argsort(data, axis=-1, kind="stable")
    _view(idx_start, shape, np.intp)[...] = order
    data[...] = np.take_along_axis(data, order, -1)


def lexsort(dtype, idx_start, keys_start, k, n):
    _check(dtype, TypeError)
    keys = _view(keys_start, (k, n), dtype)
    _view(idx_start, (n,), np.intp)[...] = np.lexsort(keys)


def _check(dtype, error):
    if np.dtype(dtype).char not in SORTABLE:
        raise error(f"Sorting arrays with dtype '{dtype}' is not supported")


def _view(address, shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
