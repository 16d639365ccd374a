"""CuPy bodies of `arraylearn.backend.ops.quadratic`: a block of threads for each program, one launch."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy

Gpu = Any

__all__ = ["pair_steps", "project", "put"]

_THREADS = 128

# Every thread looks at each 128th coordinate; the best of all threads is found by halves in shared memory.
_HEAD = """
#define THREADS %(threads)d
typedef %(real)s real;

__device__ void keep_best(real* value, int* place) {
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        int me = threadIdx.x, other = me + half;
        if (me < half && (value[other] > value[me] ||
                          (value[other] == value[me] && place[other] < place[me]))) {
            value[me] = value[other];
            place[me] = place[other];
        }
    }
    __syncthreads();
}

__device__ void add_all(real* value) {
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) value[threadIdx.x] += value[threadIdx.x + half];
    }
    __syncthreads();
}
"""

_PAIR_STEPS = """
extern "C" __global__ void arraylearn_pair_steps(
    const real* matrix, const real* roots, const real* lower, const real* upper, real tol, real infinity,
    int n_steps, int m, real* gradient, real* point, long long* taken
) {
    __shared__ real value[THREADS];
    __shared__ real largest[THREADS];
    __shared__ int place[THREADS];
    __shared__ int unused[THREADS];
    __shared__ real step, new_i, new_j;
    long long start = (long long)blockIdx.x * m;
    matrix += start * m; roots += start * m;
    lower += start; upper += start; gradient += start; point += start;
    int me = threadIdx.x, n_taken = 0;
    while (n_taken < n_steps) {
        value[me] = -infinity; place[me] = m - 1;
        for (int k = m - 1 - me; k >= 0; k -= THREADS) {
            if (point[k] < upper[k] && gradient[k] >= value[me]) { value[me] = gradient[k]; place[me] = k; }
        }
        keep_best(value, place);
        int i = place[0];
        real highest = value[0];
        __syncthreads();
        value[me] = -infinity; largest[me] = -infinity; place[me] = m - 1; unused[me] = 0;
        for (int k = m - 1 - me; k >= 0; k -= THREADS) {
            if (point[k] > lower[k]) {
                real violation = highest - gradient[k], worth = violation * roots[(long long)i * m + k];
                if (worth >= value[me]) { value[me] = worth; place[me] = k; }
                if (violation > largest[me]) largest[me] = violation;
            }
        }
        keep_best(value, place);
        keep_best(largest, unused);
        int j = place[0];
        if (!(largest[0] > tol)) break;
        if (me == 0) {
            real root = roots[(long long)i * m + j];
            real room_i = upper[i] - point[i], room_j = point[j] - lower[j];
            step = (highest - gradient[j]) * root * root;
            if (room_i < step) step = room_i;
            if (room_j < step) step = room_j;
            if (!(step > 0)) step = 0;
            new_i = step >= room_i ? upper[i] : point[i] + step;
            new_j = step >= room_j ? lower[j] : point[j] - step;
            point[i] = new_i;
            point[j] = new_j;
        }
        __syncthreads();
        for (int k = me; k < m; k += THREADS) {
            gradient[k] -= step * (matrix[(long long)i * m + k] - matrix[(long long)j * m + k]);
        }
        ++n_taken;
        __syncthreads();
    }
    if (me == 0) taken[blockIdx.x] = n_taken;
}
"""

_PROJECT = """
extern "C" __global__ void arraylearn_project(
    const real* move, const real* point, const real* lower, const real* upper, const bool* is_free,
    int n_bisections, int m, real* found
) {
    __shared__ real value[THREADS];
    __shared__ real count[THREADS];
    __shared__ int unused[THREADS];
    long long start = (long long)blockIdx.x * m;
    move += start; point += start; lower += start; upper += start; is_free += start; found += start;
    int me = threadIdx.x;
    value[me] = 0; count[me] = 0; unused[me] = 0;
    for (int k = me; k < m; k += THREADS) {
        if (is_free[k] && move[k] > value[me]) value[me] = move[k];
        if (is_free[k] && -move[k] > count[me]) count[me] = -move[k];
    }
    keep_best(value, unused);
    keep_best(count, unused);
    real low = -count[0], high = value[0];
    __syncthreads();
    for (int turn = 0; turn <= n_bisections; ++turn) {
        real shift = turn < n_bisections ? (low + high) / 2 : high;
        value[me] = 0;
        for (int k = me; k < m; k += THREADS) {
            real inside = point[k] + move[k] - shift;
            inside = inside < lower[k] ? lower[k] : inside;
            inside = inside > upper[k] ? upper[k] : inside;
            found[k] = is_free[k] ? inside : point[k];
            value[me] += found[k] - point[k];
        }
        add_all(value);
        if (turn < n_bisections) { if (value[0] > 0) low = shift; else high = shift; }
        __syncthreads();
    }
    count[me] = 0; value[me] = 0;
    for (int k = me; k < m; k += THREADS) {
        value[me] += found[k] - point[k];
        if (is_free[k] && found[k] > lower[k] && found[k] < upper[k]) count[me] += 1;
    }
    add_all(value);
    add_all(count);
    real rest = value[0] / (count[0] > 0 ? count[0] : (real)1);
    for (int k = me; k < m; k += THREADS) {
        if (is_free[k] && found[k] > lower[k] && found[k] < upper[k]) {
            real even = found[k] - rest;
            even = even < lower[k] ? lower[k] : even;
            found[k] = even > upper[k] ? upper[k] : even;
        }
    }
}
"""


@cache
def _kernel(source: str, name: str, dtype: str) -> Any:
    real = {"float32": "float", "float64": "double"}[dtype]
    return cupy.RawKernel(_HEAD % {"threads": _THREADS, "real": real} + source, name)


def pair_steps(
    matrix: Gpu, roots: Gpu, gradient: Gpu, point: Gpu, lower: Gpu, upper: Gpu, tol: float, n_steps: int
) -> tuple[Gpu, Gpu, Gpu]:
    b, m = point.shape
    taken = cupy.zeros(b, dtype=cupy.int64)
    point, gradient = point.copy(), gradient.copy()
    if b and m:
        kernel = _kernel(_PAIR_STEPS, "arraylearn_pair_steps", str(point.dtype))
        fixed = [cupy.ascontiguousarray(values) for values in (matrix, roots, lower, upper)]
        real = point.dtype.type
        numbers = real(tol), real(cupy.inf), cupy.int32(n_steps), cupy.int32(m)
        kernel((b,), (_THREADS,), (*fixed, *numbers, gradient, point, taken))
    return point, gradient, taken


def project(move: Gpu, point: Gpu, lower: Gpu, upper: Gpu, is_free: Gpu, n_bisections: int) -> Gpu:
    arrays = cupy.broadcast_arrays(move, point, lower, upper, is_free)
    found = cupy.empty(arrays[0].shape, dtype=move.dtype)
    m = found.shape[-1]
    if found.size:
        kernel = _kernel(_PROJECT, "arraylearn_project", str(move.dtype))
        fixed = [cupy.ascontiguousarray(values) for values in arrays]
        kernel((found.size // m,), (_THREADS,), (*fixed, cupy.int32(n_bisections), cupy.int32(m), found))
    return found


def put(x: Gpu, idx: Gpu, values: Gpu) -> Gpu:
    result = x.copy()
    result[idx] = values
    return result
