"""torch_fake_cuda passes correct programs and catches one seeded bug of each kind."""

import importlib.util

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("not installed: torch", allow_module_level=True)

import torch

from tests.backends import torch_fake_cuda
from tests.backends.torch_fake_cuda import CudaTensor, FakeCuda, HostSync

if reason := torch_fake_cuda.unavailable():
    pytest.skip(f"rung fake_cuda: {reason}", allow_module_level=True)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4))
KEYS = RNG.integers(0, 5, 20)


def on_cpu(tensor):
    assert isinstance(tensor, CudaTensor)
    return tensor.on_cpu.numpy()


# ---- correct programs


def class_means(x, keys, count):
    sums = torch.zeros((count, x.shape[1]), dtype=x.dtype, device=x.device)
    sums.index_add_(0, keys, x)
    sizes = torch.zeros(count, dtype=x.dtype, device=x.device)
    sizes.scatter_add_(0, keys, torch.ones_like(keys, dtype=x.dtype))
    return sums / sizes[:, None]


@pytest.mark.parametrize("shuffle", [False, True])
def test_correct_program_runs_without_sync(shuffle):
    with FakeCuda(forbid_sync=True, shuffle=shuffle) as gpu:
        means = class_means(torch.tensor(X, device="cuda"), torch.tensor(KEYS, device="cuda"), 5)
    assert means.device == torch.device("cuda", 0)
    expected = np.stack([X[key == KEYS].mean(axis=0) for key in range(5)])
    np.testing.assert_allclose(on_cpu(means), expected)
    assert gpu.sync_log == []
    assert gpu.operations["aten.index_add_.default"] == 1
    assert gpu.launches < sum(gpu.operations.values())  # views are no launches


def test_views_alias():
    with FakeCuda():
        x = torch.zeros((3, 2), device="cuda")
        x[1:].add_(1)
        x[:, 0] = 5.0
    np.testing.assert_array_equal(on_cpu(x), [[5, 0], [5, 1], [5, 1]])


def test_linear_algebra():
    with FakeCuda():
        matrix = torch.tensor(X.T @ X, device="cuda")
        inverse = torch.linalg.inv(matrix)
        values = torch.linalg.eigh(matrix)[0]
    np.testing.assert_allclose(on_cpu(inverse), np.linalg.inv(X.T @ X))
    np.testing.assert_allclose(on_cpu(values), np.linalg.eigvalsh(X.T @ X))


def test_array_api_compat_namespace():
    xp = pytest.importorskip("array_api_compat.torch")
    with FakeCuda(forbid_sync=True):
        x = xp.asarray(X, device="cuda")
        scaled = (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)
        order = xp.argsort(xp.take(scaled, xp.arange(10, device="cuda"), axis=0)[:, 0])
    expected = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(on_cpu(scaled), expected)
    np.testing.assert_array_equal(on_cpu(order), np.argsort(expected[:10, 0]))


def test_torch_cuda_answers_as_with_one_device():
    assert not torch.cuda.is_available()
    with FakeCuda() as gpu:
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 1
        torch.cuda.synchronize()
    assert gpu.sync_log == ["torch.cuda.synchronize"]
    assert not torch.cuda.is_available()


def test_explicit_reads_are_waits():
    with FakeCuda() as gpu:
        x = torch.ones(2, device="cuda")
        assert x.tolist() == [1, 1]
        assert x[0].item() == 1
        np.testing.assert_array_equal(x.cpu().numpy(), [1, 1])
    assert len(gpu.sync_log) == 3


# ---- seeded bugs: wrong device


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x + torch.ones(4, dtype=x.dtype),
        lambda x: x * torch.arange(20)[:, None],
        lambda x: torch.index_select(x, 0, torch.tensor([0, 1])),
        lambda x: torch.arange(20)[torch.zeros(3, dtype=torch.int64, device="cuda")],
        lambda x: torch.cat([x, torch.zeros(1, 4, dtype=x.dtype)]),
    ],
    ids=["ones", "arange", "index_select", "cpu indexed by cuda", "cat"],
)
def test_forgotten_device_is_caught(program):
    with FakeCuda():
        x = torch.tensor(X, device="cuda")
        with pytest.raises(RuntimeError, match="device"):
            program(x)


def test_implicit_conversion_is_refused():
    with FakeCuda():
        x = torch.ones(3, device="cuda")
        with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
            np.asarray(x)
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(x)


# ---- seeded bugs: hidden waits


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x / float(x.sum()),
        lambda x: x + 1 if (x > 0).any() else x,
        lambda x: x[x > 0],
        lambda x: torch.unique(x),
        lambda x: torch.bincount(x.to(torch.int64).abs().flatten(), minlength=5),
        lambda x: x.cpu(),
        lambda x: torch.linalg.cholesky(x.T @ x),
        lambda x: torch.allclose(x, x),
    ],
    ids=["float", "if", "mask", "unique", "bincount", "cpu", "cholesky", "allclose"],
)
def test_hidden_wait_is_caught(program):
    with FakeCuda() as gpu:
        x = torch.tensor(X, device="cuda")
        program(x)
        assert gpu.sync_log
        with pytest.raises(HostSync), gpu.no_sync():
            program(x)


def test_masked_fill_is_not_a_wait():
    with FakeCuda(forbid_sync=True):
        x = torch.tensor(X, device="cuda")
        x[x < 0] = 0.0
    np.testing.assert_array_equal(on_cpu(x), np.maximum(X, 0))


# ---- seeded bugs: memory, dtypes and order


def test_empty_is_poisoned():
    with FakeCuda():
        x = torch.empty(1000, device="cuda")
        x[:500] = 0.0
        keys = torch.empty_like(x, dtype=torch.int64)
    assert np.isnan(on_cpu(x)[500:]).all()
    assert (on_cpu(keys) > 1e18).all()


@pytest.mark.parametrize(
    "program",
    [
        lambda keys: torch.sort(keys.to(torch.uint16)),
        lambda keys: keys[None, :] @ keys[:, None],
    ],
    ids=["uint16 sort", "integer matmul"],
)
def test_dtype_without_cuda_kernel_is_caught(program):
    program(torch.tensor(KEYS))  # the CPU accepts it
    with FakeCuda(), pytest.raises(RuntimeError, match="_cuda"):
        program(torch.tensor(KEYS, device="cuda"))


def test_dependence_on_the_order_of_additions_is_shown():
    values = RNG.random(20000).astype("float32")
    keys = RNG.integers(0, 10, 20000)
    sums = []
    for seed in (1, 2):
        with FakeCuda(shuffle=True, seed=seed):
            total = torch.zeros(10, device="cuda")
            total.scatter_add_(0, torch.tensor(keys, device="cuda"), torch.tensor(values, device="cuda"))
        sums.append(on_cpu(total))
    assert not np.array_equal(*sums)
    np.testing.assert_allclose(*sums, rtol=1e-4)


def test_tensor_outside_its_device_is_refused():
    with FakeCuda():
        x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="outside"):
        x + 1


@pytest.mark.parametrize(
    "program",
    [
        lambda x, keys, values: x.index_put_((keys,), values),
        lambda x, keys, values: x.scatter_(0, keys, values),
    ],
    ids=["index_put", "scatter"],
)
def test_dependence_on_the_last_writer_is_shown(program):
    results = set()
    for seed in range(5):
        with FakeCuda(shuffle=True, seed=seed):
            x = torch.zeros(2, dtype=torch.int64, device="cuda")
            program(x, torch.zeros(10, dtype=torch.int64, device="cuda"), torch.arange(10, device="cuda"))
        results.add(int(on_cpu(x)[0]))
    assert len(results) > 1


@pytest.mark.parametrize(
    "program",
    [
        lambda x, keys, values: x.index_add_(0, keys, values),
        lambda x, keys, values: x.scatter_add_(0, keys[:, None].expand(-1, 4), values),
        lambda x, keys, values: x.scatter_add_(1, keys[None, :4].expand(5, -1) % 4, values[:5]),
        lambda x, keys, values: x.scatter_reduce_(0, keys[:, None].expand(-1, 4), values, "amax"),
        lambda x, keys, values: x.index_put_((keys,), values, accumulate=True),
        lambda x, keys, values: x.index_put_((keys, keys % 4), values[:, 0], accumulate=True),
        lambda x, keys, values: x.index_put_((keys,), values[0], accumulate=True),
    ],
)
def test_shuffling_keeps_sums_and_extrema(program):
    x, keys, values = torch.zeros((5, 4), dtype=torch.float64), torch.tensor(KEYS), torch.tensor(X)
    expected = program(x, keys, values).numpy()
    with FakeCuda(shuffle=True):
        x = torch.zeros((5, 4), dtype=torch.float64, device="cuda")
        result = program(x, keys.to("cuda"), values.to("cuda"))
    np.testing.assert_allclose(on_cpu(result), expected)
