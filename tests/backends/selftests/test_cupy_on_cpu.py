"""cupy_on_cpu passes correct programs and catches one seeded bug of each kind."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

if "tests.backends.cupy_on_cpu" not in sys.modules:
    pytest.skip("rung cupy: the emulator could not be loaded", allow_module_level=True)

import cupy as cp
import cupyx

from tests.backends import cupy_on_cpu
from tests.backends.cuda_on_cpu import driver

REPOSITORY = Path(__file__).parents[3]
RNG = np.random.default_rng(0)


def assert_same(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(cp.asnumpy(actual), expected, rtol=tolerance, atol=tolerance)


# ---- correct programs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_array_functions_agree_with_numpy(dtype):
    host = RNG.normal(size=(50, 4)).astype(dtype)
    x = cp.asarray(host)
    assert_same(cp.sum(cp.exp(-x * x), axis=0), np.sum(np.exp(-host * host), axis=0))
    assert_same(cp.cumsum(x, axis=0), np.cumsum(host, axis=0))
    assert_same(cp.sort(x, axis=0), np.sort(host, axis=0))
    assert_same(x[cp.argsort(x[:, 0])], host[np.argsort(host[:, 0])])
    assert_same(x[x > 0], host[host > 0])
    assert_same(cp.argmax(x, axis=1), np.argmax(host, axis=1))
    assert_same(cp.searchsorted(cp.sort(x[:, 0]), x[:, 1]), np.searchsorted(np.sort(host[:, 0]), host[:, 1]))
    assert_same(cp.where(x > 0, x, 0).mean(), np.where(host > 0, host, 0).mean())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linear_algebra_agrees_with_numpy(dtype):
    a = RNG.normal(size=(3, 5, 5)).astype(dtype)
    positive = a @ a.swapaxes(1, 2) + 5 * np.eye(5, dtype=dtype)
    right = RNG.normal(size=(3, 5, 2)).astype(dtype)
    matrix, vector = cp.asarray(positive), cp.asarray(right)
    assert_same(matrix @ vector, positive @ right, 1e-4)
    for i in (slice(None), 0):  # batched, single
        assert_same(cp.linalg.cholesky(matrix[i]), np.linalg.cholesky(positive[i]), 1e-4)
        assert_same(cp.linalg.solve(matrix[i], vector[i]), np.linalg.solve(positive[i], right[i]), 1e-4)
        assert_same(cp.linalg.inv(matrix[i]), np.linalg.inv(positive[i]), 1e-4)
        assert_same(cp.linalg.eigh(matrix[i])[0], np.linalg.eigh(positive[i])[0], 1e-4)
        assert_same(cp.linalg.svd(matrix[i])[1], np.linalg.svd(positive[i])[1], 1e-4)
        assert_same(cp.linalg.slogdet(matrix[i])[1], np.linalg.slogdet(positive[i])[1], 1e-4)
        factor_q, factor_r = cp.linalg.qr(matrix[i])
        assert_same(factor_q @ factor_r, positive[i], 1e-4)


def test_add_at_needs_no_sync():
    keys = cp.asarray(RNG.integers(0, 7, 1000))
    with cupy_on_cpu.no_sync():
        counts = cp.zeros(7, dtype=cp.int64)
        cp.add.at(counts, keys, 1)
    assert_same(counts, np.bincount(cp.asnumpy(keys), minlength=7))


def test_counters():
    x = cp.arange(10.0)
    before = cupy_on_cpu.counters()
    float(cp.sum(x * 2))
    after = cupy_on_cpu.counters()
    assert after["d2h"] - before["d2h"] == 1
    assert after["launches"] - before["launches"] == 2


BLOCK_SUM = r"""
extern "C" __global__ void block_sum(const float* x, float* total, int n) {
    __shared__ float partial[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    partial[threadIdx.x] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, partial[0]);
}
"""


def test_kernel_with_shared_memory_and_barriers():
    x = cp.arange(1000, dtype=cp.float32)
    total = cp.zeros(1, dtype=cp.float32)
    cp.RawKernel(BLOCK_SUM, "block_sum")((8,), (128,), (x, total, np.int32(1000)))
    assert float(total[0]) == 499500


# ---- seeded bugs: hidden waits


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x / float(cp.sum(x)),
        lambda x: x + 1 if cp.any(x > 0) else x,
        lambda x: x[x > 0],
        lambda x: cp.bincount(x.astype(cp.int64), minlength=20),
        lambda x: cp.unique(x),
        lambda x: cp.asnumpy(x),
    ],
    ids=["float", "if", "mask", "bincount", "unique", "asnumpy"],
)
def test_hidden_wait_is_caught(program):
    x = cp.arange(10.0)
    with pytest.raises(cupy_on_cpu.HostSync), cupy_on_cpu.no_sync():
        program(x)
    program(x)  # allowed outside


def test_wait_is_caught_even_if_the_program_hides_the_error():
    x = cp.arange(10.0)
    with (
        pytest.raises(cupy_on_cpu.HostSync),
        cupy_on_cpu.no_sync(),
        contextlib.suppress(Exception),
    ):
        float(x[0])


def test_no_sync_may_be_nested():
    x = cp.arange(10.0)
    with cupy_on_cpu.no_sync(), cupy_on_cpu.no_sync():
        x += 1
    with pytest.raises(cupy_on_cpu.HostSync), cupy_on_cpu.no_sync():  # noqa: PT012
        with cupy_on_cpu.no_sync():
            x += 1
        float(x[0])
    float(x[0])


# ---- seeded bugs: what a GPU does silently


def test_empty_is_poisoned():
    for _ in range(3):  # also when the memory is recycled
        x = cp.empty(1000)
        x[:500] = 0.0
        assert float(cp.sum(x)) < -1e50
        del x


def test_failed_cholesky_is_silent_unless_asked():
    indefinite = cp.asarray(-np.eye(3))
    cp.linalg.cholesky(indefinite)  # a program that waits for LinAlgError here is wrong
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        cp.linalg.cholesky(indefinite)


def test_index_out_of_range_wraps():
    assert_same(cp.arange(3)[cp.asarray([1, 7])], [1, 1])


def test_implicit_conversion_is_refused():
    x = cp.ones(3)
    with pytest.raises(TypeError):
        np.asarray(x)
    with pytest.raises(TypeError):
        x + np.ones(3)


def test_solve_does_not_broadcast():
    with pytest.raises(ValueError, match="a must have"):
        cp.linalg.solve(cp.stack([cp.eye(3)] * 2), cp.ones((3, 1)))


# ---- seeded bugs: order and barriers

LAST_WRITER = 'extern "C" __global__ void last_writer(int* x) { x[0] = blockIdx.x; }'
COUNT_BLOCKS = 'extern "C" __global__ void count_blocks(int* x) { atomicAdd(x, 1); }'


def results_under_shuffle(source, name):
    kernel = cp.RawKernel(source, name)
    results = set()
    for seed in range(1, 6):
        with driver.shuffled(seed):
            x = cp.zeros(1, dtype=cp.int32)
            kernel((64,), (1,), (x,))
            results.add(int(x[0]))
    return results


def test_dependence_on_block_order_is_caught():
    assert len(results_under_shuffle(LAST_WRITER, "last_writer")) > 1
    assert results_under_shuffle(COUNT_BLOCKS, "count_blocks") == {64}


def test_float_atomics_depend_on_order_only_within_tolerance():
    keys = cp.asarray(RNG.integers(0, 10, 20000))
    values = cp.asarray(RNG.random(20000).astype("float32"))
    sums = []
    for seed in (1, 2):
        with driver.shuffled(seed):
            total = cp.zeros(10, dtype=cp.float32)
            cp.add.at(total, keys, values)
            sums.append(cp.asnumpy(total))
    assert not np.array_equal(*sums)
    np.testing.assert_allclose(*sums, rtol=1e-5)


DIVERGENT = """
extern "C" __global__ void divergent(int* x) {
    if (threadIdx.x < 5) __syncthreads();
    else __syncwarp();
}
"""


def test_divergent_barrier_is_caught(capfd):
    with pytest.raises(Exception, match="LAUNCH_FAILED"):
        cp.RawKernel(DIVERGENT, "divergent")((1,), (32,), (cp.zeros(1, dtype=cp.int32),))
    assert "deadlock" in capfd.readouterr().err


# ---- seeded bugs: kernels that do not compile


def test_undefined_name_in_a_kernel():
    kernel = cp.RawKernel('extern "C" __global__ void bad(float* x) { x[0] = undefined_name; }', "bad")
    with pytest.raises(cp.cuda.compiler.CompileException, match="undefined_name"):
        kernel((1,), (1,), (cp.ones(1),))


HOST_CALL = r"""
from tests.backends import cupy_on_cpu
from tests.backends.cuda_on_cpu import driver
import cupy as cp
print(cp.asnumpy(cp.arange(3) + 1))
x = cp.zeros(1, dtype=cp.int32)
source = '#include <cstdlib>\nextern "C" __global__ void host_call(int* x) { x[0] = getenv("HOME") != 0; }'
cp.RawKernel(source, "host_call")((1,), (1,), (x,))
print("accepted")
"""


def run_in_new_process(program, **environment):
    command = [sys.executable, "-c", program]
    settings = dict(os.environ, PYTHONPATH=str(REPOSITORY), **environment)
    return subprocess.run(command, env=settings, capture_output=True, text=True)


def nvrtc_is_installed():
    try:
        cp.cuda.nvrtc.getVersion()
    except Exception:
        return False
    return True


def test_real_nvrtc_refuses_what_gxx_accepts():
    if not nvrtc_is_installed():
        pytest.skip("not installed: nvidia-cuda-nvrtc")
    assert "accepted" in run_in_new_process(HOST_CALL, CUPY_ON_CPU_NVRTC="0").stdout
    strict = run_in_new_process(HOST_CALL, CUPY_ON_CPU_NVRTC="1")
    assert "[1 2 3]" in strict.stdout
    assert "CompileException" in strict.stderr


# ---- limits that announce themselves


def test_random_numbers_are_refused():
    with pytest.raises(NotImplementedError, match="draw random numbers with numpy"):
        cp.random.rand(3)


def test_cupy_first_is_refused():
    result = run_in_new_process("import cupy, tests.backends.cupy_on_cpu")
    assert "import cupy_on_cpu before cupy" in result.stderr


def test_missing_compiler_is_explained(tmp_path):
    result = run_in_new_process(
        "import tests.backends.cupy_on_cpu", CUPY_ON_CPU_CACHE=str(tmp_path), PATH=str(tmp_path)
    )
    assert "g++ is not on the PATH" in result.stderr
