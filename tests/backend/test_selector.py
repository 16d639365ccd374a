"""Which backend computes, what a missing one reports, and where a choice holds."""

from __future__ import annotations

import asyncio
import threading
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend import probe as probes
from arraylearn.backend import selector
from arraylearn.backend.namespace import HOST, Place
from arraylearn.backend.probe import Availability, BackendName, parse
from arraylearn.backend.selector import choose_place, compute_at_home, find_places, resolve


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No choice made, nothing warned about, nothing probed."""
    monkeypatch.setattr(selector, "_process", selector._UNSET)
    monkeypatch.setattr(selector, "_warned", set())
    monkeypatch.delenv("ARRAYLEARN_BACKEND", raising=False)
    monkeypatch.delenv("ARRAYLEARN_FALLBACK", raising=False)
    probes.forget_probes()
    yield
    probes.forget_probes()


@pytest.fixture
def no_cupy(monkeypatch):
    def unavailable(name):
        if name.library == "cupy":
            return Availability(str(name), False, None, None, "not installed", "pip install cupy")
        return real(name)

    real = probes._try
    monkeypatch.setattr(probes, "_try", unavailable)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numpy", ("numpy", None)),
        ("torch", ("torch", None)),
        ("torch:cuda:0", ("torch", "cuda:0")),
        ("cupy:1", ("cupy", "1")),
        ("strict:device1", ("array_api_strict", "device1")),
    ],
)
def test_parse(text, expected):
    assert parse(text) == BackendName(*expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jax", "must be one of 'numpy', 'torch', 'cupy'"),
        ("", "must be one of"),
        ("numpy:cuda", "CPU only"),
        ("cupy:first", "a number"),
    ],
)
def test_parse_refuses(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)
    with pytest.raises(ValueError, match=message):
        al.set_backend(text)
    assert al.get_backend() is None


def test_parse_refuses_other_types():
    with pytest.raises(TypeError, match="must be a string"):
        al.set_backend(3)


def test_without_a_choice_computation_follows_the_input(rung):
    home = Place(rung.load(), rung.device)
    assert al.get_backend() is None
    assert choose_place(home) == home


def test_tensors_on_the_cpu_are_computed_with_by_numpy_unless_torch_is_named(monkeypatch):
    torch = resolve("torch")
    assert choose_place(torch) == HOST
    assert choose_place(torch, "torch") == torch
    with al.use_backend("torch"):
        assert choose_place(torch) == torch
        with al.use_backend(None):
            assert choose_place(torch) == HOST
    with compute_at_home():
        assert choose_place(torch) == torch
    al.set_backend("torch")
    assert choose_place(torch) == torch
    al.set_backend(None)
    assert choose_place(torch) == HOST
    monkeypatch.setattr(selector, "_process", selector._UNSET)
    monkeypatch.setenv("ARRAYLEARN_BACKEND", "torch")
    assert choose_place(torch) == torch


def test_functions_compute_at_the_first_array_unless_a_backend_is_named():
    torch = resolve("torch")
    tensor = torch.xp.zeros(2)
    assert find_places([1.0], None) == (HOST, HOST)
    assert find_places([1.0], tensor, np.zeros(2)) == (torch, torch)
    with al.use_backend("numpy"):
        assert find_places(tensor) == (torch, HOST)


@pytest.mark.parametrize("named_by", ["nothing", "estimator", "context", "process", "environment"])
def test_a_fit_on_tensors_computes_in_torch_where_torch_was_named(named_by, monkeypatch):
    torch = pytest.importorskip("torch")
    X = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0], [3.0, 1.0]])
    y = torch.tensor([0, 0, 1, 1])
    if named_by == "process":
        al.set_backend("torch")
    if named_by == "environment":
        monkeypatch.setenv("ARRAYLEARN_BACKEND", "torch")
    with al.use_backend("torch") if named_by == "context" else nullcontext():
        model = al.SVC(backend="torch" if named_by == "estimator" else None).fit(X, y)
        answers = model.predict(X)
    wanted = np.ndarray if named_by == "nothing" else torch.Tensor
    assert isinstance(model.model_.vectors, wanted)
    assert isinstance(answers, torch.Tensor)
    assert answers.tolist() == [0, 0, 1, 1]


def test_order_of_precedence(monkeypatch):
    monkeypatch.setenv("ARRAYLEARN_BACKEND", "torch")
    assert choose_place(HOST).library == "torch"
    al.set_backend("numpy")
    assert choose_place(HOST).library == "numpy"
    with al.use_backend("strict"):
        assert choose_place(HOST).library == "array_api_strict"
        assert choose_place(HOST, "torch").library == "torch"
        with al.use_backend(None):  # follow the input, whatever surrounds it
            assert choose_place(HOST) == HOST
        assert al.get_backend() == "strict"
    assert al.get_backend() == "numpy"


def test_context_ends_with_an_error():
    with pytest.raises(KeyError), al.use_backend("torch"):
        raise KeyError
    assert al.get_backend() is None


def test_context_is_local_to_the_thread_and_the_choice_of_the_process_is_not():
    seen = {}

    def look(key):
        seen[key] = al.get_backend()

    with al.use_backend("torch"):
        thread = threading.Thread(target=look, args=("context",))
        thread.start()
        thread.join()
    al.set_backend("strict")
    thread = threading.Thread(target=look, args=("process",))
    thread.start()
    thread.join()
    assert seen == {"context": None, "process": "strict"}


def test_context_is_local_to_the_task():
    async def task(name, other_is_inside):
        with al.use_backend(name):
            await other_is_inside.wait()
            return al.get_backend()

    async def both():
        barrier = asyncio.Barrier(2)
        return await asyncio.gather(task("numpy", barrier), task("torch", barrier))

    assert asyncio.run(both()) == ["numpy", "torch"]


def test_missing_backend_says_why_and_what_to_do(no_cupy):
    with pytest.raises(
        al.BackendUnavailableError, match=r"not installed.*Remedy: pip install cupy.*fallback"
    ):
        al.set_backend("cupy")
    assert al.get_backend() is None
    with pytest.raises(ImportError):
        resolve("cupy")
    with pytest.raises(RuntimeError):
        resolve("cupy")


def test_fallback_warns_once(no_cupy):
    with pytest.warns(al.BackendFallbackWarning, match="Computing on 'numpy' instead"):
        al.set_backend("cupy", fallback="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_place(HOST) == HOST
        assert choose_place(HOST) == HOST
    assert al.get_backend() == "cupy"


def test_fallback_from_the_environment(no_cupy, monkeypatch):
    monkeypatch.setenv("ARRAYLEARN_BACKEND", "cupy")
    with pytest.raises(al.BackendUnavailableError):
        choose_place(HOST)
    monkeypatch.setenv("ARRAYLEARN_FALLBACK", "torch")
    with pytest.warns(al.BackendFallbackWarning):
        assert choose_place(HOST).library == "torch"


def test_the_fallback_of_the_process_serves_an_estimators_backend(no_cupy):
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    with pytest.raises(al.BackendUnavailableError):
        al.NaiveBayesClassifier(backend="cupy").fit(X, y)
    with pytest.warns(al.BackendFallbackWarning, match="Computing on 'numpy' instead"):
        al.set_backend("cupy", fallback="numpy")
    assert al.NaiveBayesClassifier(backend="cupy").fit(X, y).predict(X).tolist() == y
    with al.use_backend("numpy"):  # a choice without a fallback takes none away
        al.NaiveBayesClassifier(backend="cupy").fit(X, y)
    with al.use_backend("numpy", fallback="torch"), pytest.warns(al.BackendFallbackWarning):
        assert choose_place(HOST, "cupy").library == "torch"
    al.set_backend(None, fallback="numpy")  # with inputs followed otherwise
    assert al.get_backend() is None
    assert choose_place(HOST, "cupy") == HOST
    al.set_backend(None)
    with pytest.raises(al.BackendUnavailableError):
        choose_place(HOST, "cupy")


def test_unknown_fallback_is_refused(no_cupy):
    with pytest.raises(ValueError, match="must be one of"), pytest.warns(al.BackendFallbackWarning):
        al.set_backend("cupy", fallback="jax")
    assert al.get_backend() is None


def test_auto_takes_the_first_that_works(monkeypatch):
    monkeypatch.setattr(probes, "_try", lambda name: HOST if name.library == "numpy" else _broken(name))
    assert resolve("auto") == HOST
    probes.forget_probes()
    monkeypatch.setattr(probes, "_try", _broken)
    with pytest.raises(al.BackendUnavailableError, match=r"cupy: broken.*numpy: broken"):
        resolve("auto")


def _broken(name):
    return Availability(str(name), False, None, None, "broken", "mend it")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ImportError("libcuda.so"), "cannot be imported"),
        (AssertionError("Torch not compiled with CUDA enabled"), "CPU build"),
        (RuntimeError("CUDA driver version is insufficient"), "no driver"),
        (RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected"), "no device"),
        (RuntimeError("something else"), "a test operation failed"),
    ],
)
def test_reasons(monkeypatch, error, reason):
    def fail(name):
        raise error

    monkeypatch.setattr(probes, "_place", fail)
    with pytest.raises(al.BackendUnavailableError, match=reason):
        resolve("torch:cuda")


def test_a_backend_that_computes_nonsense_is_unavailable(monkeypatch):
    monkeypatch.setattr(probes, "to_host", lambda array: np.float32(0.0))
    with pytest.raises(al.BackendUnavailableError, match="gave 0"):
        resolve("numpy")


def test_info_tells_of_every_backend():
    entries = {entry.backend: entry for entry in al.backend_info()}
    assert list(entries) == ["numpy", "torch", "torch:cuda", "cupy"]
    assert entries["numpy"].works
    assert entries["numpy"].version == np.__version__
    for entry in entries.values():
        assert entry.works or (entry.reason and entry.remedy)
        assert entry.backend in str(entry)


def test_named_backend_is_found_on_its_rung(rung):
    """The selector must reach every rung by name, emulated devices included."""
    name = {
        "numpy": "numpy",
        "compiled": "numpy",
        "strict": "strict:device1",
        "strict_float32": "strict:no_float64",
        "torch": "torch",
        "fake_cuda": "torch:cuda:0",
        "cupy": "cupy",
        "cupy_nvrtc": "cupy:0",
    }[rung.name]
    assert resolve(name) == Place(rung.load(), rung.device)
