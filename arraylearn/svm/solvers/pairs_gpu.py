"""The body of `pairs` for GPUs: a block of threads for each program, one launch for all steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.gpu.launch import CudaKernel, Launch, c_type
from arraylearn.svm.solvers.pairs import Block

__all__ = ["pair_steps", "project"]

_THREADS = 128

# Every thread looks at each 128th coordinate; the best of all threads is found by halves in shared memory.
_HEAD = """
#define THREADS %(threads)d
typedef %(scalar)s scalar;

__device__ void keep_best(scalar* value, int* place) {
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

__device__ void add_all(scalar* value) {
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) value[threadIdx.x] += value[threadIdx.x + half];
    }
    __syncthreads();
}
"""

_PAIR_STEPS = """
extern "C" __global__ void arraylearn_pair_steps(
    const scalar* matrix, const scalar* roots, const scalar* lower, const scalar* upper,
    scalar tol, scalar infinity, int n_steps, int m, scalar* gradient, scalar* point, long long* taken
) {
    __shared__ scalar value[THREADS];
    __shared__ scalar largest[THREADS];
    __shared__ int place[THREADS];
    __shared__ int unused[THREADS];
    __shared__ scalar step, new_i, new_j;
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
        scalar highest = value[0];
        __syncthreads();
        value[me] = -infinity; largest[me] = -infinity; place[me] = m - 1; unused[me] = 0;
        for (int k = m - 1 - me; k >= 0; k -= THREADS) {
            if (point[k] > lower[k]) {
                scalar violation = highest - gradient[k], worth = violation * roots[(long long)i * m + k];
                if (worth >= value[me]) { value[me] = worth; place[me] = k; }
                if (violation > largest[me]) largest[me] = violation;
            }
        }
        keep_best(value, place);
        keep_best(largest, unused);
        int j = place[0];
        if (!(largest[0] > tol)) break;
        if (me == 0) {
            scalar root = roots[(long long)i * m + j];
            scalar to_upper = upper[i] - point[i], to_lower = point[j] - lower[j];
            step = (highest - gradient[j]) * root * root;
            if (to_upper < step) step = to_upper;
            if (to_lower < step) step = to_lower;
            if (!(step > 0)) step = 0;
            new_i = step >= to_upper ? upper[i] : point[i] + step;
            new_j = step >= to_lower ? lower[j] : point[j] - step;
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
    const scalar* move, const scalar* point, const scalar* lower, const scalar* upper, const bool* is_free,
    int n_bisections, int m, scalar* found
) {
    __shared__ scalar value[THREADS];
    __shared__ scalar count[THREADS];
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
    scalar low = -count[0], high = value[0];
    __syncthreads();
    for (int turn = 0; turn <= n_bisections; ++turn) {
        scalar shift = turn < n_bisections ? (low + high) / 2 : high;
        value[me] = 0;
        for (int k = me; k < m; k += THREADS) {
            scalar inside = point[k] + move[k] - shift;
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
    scalar rest = value[0] / (count[0] > 0 ? count[0] : (scalar)1);
    for (int k = me; k < m; k += THREADS) {
        if (is_free[k] && found[k] > lower[k] && found[k] < upper[k]) {
            scalar even = found[k] - rest;
            even = even < lower[k] ? lower[k] : even;
            found[k] = even > upper[k] ? upper[k] : even;
        }
    }
}
"""


def _kernel(source: str, name: str, dtype: object) -> CudaKernel:
    return CudaKernel(_HEAD % {"threads": _THREADS, "scalar": c_type(dtype)} + source, name, _THREADS)


def pair_steps(
    launch: Launch, xp: Namespace, block: Block, gradient: Array, point: Array, tol: float, n_steps: int
) -> tuple[Array, Array, Array]:
    """Take pair steps: `pairs.pair_steps` in one launch."""
    b, m = point.shape
    taken = xp.zeros((b,), dtype=xp.int64, device=point.device)
    moved = [xp.zeros((b, m), dtype=point.dtype, device=point.device) for _ in range(2)]
    for new, old in zip(moved, (gradient, point), strict=True):
        new[:, :] = old
    if b and m:
        kernel = _kernel(_PAIR_STEPS, "arraylearn_pair_steps", point.dtype)
        number = np.float32 if c_type(point.dtype) == "float" else np.float64
        numbers = number(tol), number(math.inf), np.int32(n_steps), np.int32(m)
        launch(kernel, b, (block.matrix, block.roots, block.lower, block.upper, *numbers, *moved, taken))
    return moved[1], moved[0], taken


def project(launch: Launch, xp: Namespace, arrays: Sequence[Array], n_bisections: int) -> Array:
    """Project: `pairs.project` of move, point, lower, upper and is_free in one launch."""
    arrays = xp.broadcast_arrays(*arrays)
    shape = arrays[0].shape
    found = xp.zeros(shape, dtype=arrays[0].dtype, device=arrays[0].device)
    n_programs, m = math.prod(shape[:-1]), shape[-1]
    if n_programs and m:
        kernel = _kernel(_PROJECT, "arraylearn_project", found.dtype)
        launch(kernel, n_programs, (*arrays, np.int32(n_bisections), np.int32(m), found))
    return found
