"""The public array functions compute where the selector says, and results come home."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

import arraylearn as al

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

X = np.random.default_rng(0).normal(size=(12, 3))
CODES = np.arange(12) % 2
COUNTS = np.random.default_rng(1).integers(1, 9, (4, 3, 2))
MEANS, MATRICES = np.zeros((2, 3)), np.stack([np.eye(3), 2 * np.eye(3)])

FUNCTIONS = {
    "gram": lambda bring: al.kernels.gram(bring(X)),
    "gram of two": lambda bring: al.kernels.gram(bring(X), bring(X[:5]), kernel="poly"),
    "log_density": lambda bring: al.gaussian.log_density(bring(X), bring(MEANS), bring(MATRICES)),
    "moments": lambda bring: al.gaussian.moments(bring(X), bring(CODES), 2),
    "bayes_rule": lambda bring: al.bayes_rule(bring(np.array([0.25, 0.75])), bring(np.array([[0.5, 0.125]]))),
    "class_histogram": lambda bring: al.tree.class_histogram(bring(COUNTS[:, :, 0]), bring(CODES[:3]), 9, 2),
    "threshold_scores": lambda bring: al.tree.threshold_scores(bring(COUNTS[None])),
    **{
        name: lambda bring, name=name: getattr(al.measures, name)(bring(COUNTS))
        for name in ("entropy", "gini", "error", "information_gain", "gain_ratio", "chi2", "gini_gain")
    },
}
MOVES = {"_to_copy", "copy_", "detach", "lift_fresh", "clone", "alias"}


class Operations(TorchDispatchMode):
    """Notes which operations of torch compute something."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.names.add(function.__name__.partition(".")[0])
        return function(*arguments, **(options or {}))


@contextmanager
def of_the_process(name):
    al.set_backend(name)
    try:
        yield
    finally:
        al.set_backend(None)


def run(function, bring):
    with Operations() as operations:
        found = function(bring)
    return found if isinstance(found, tuple) else (found,), operations.names - MOVES


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_named_backend_computes(name):
    function = FUNCTIONS[name]
    expected, names = run(function, np.asarray)
    assert not names
    for context in (al.use_backend("torch"), of_the_process("torch")):
        with context:
            found, names = run(function, np.asarray)
        assert names
        for one, other in zip(found, expected, strict=True):
            assert isinstance(one, np.ndarray)
            np.testing.assert_allclose(one, other, rtol=1e-12)
    with al.use_backend("numpy"):
        found, names = run(function, torch.from_numpy)
    assert not names
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, torch.Tensor)
        np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_input_is_followed(name):
    found, names = run(FUNCTIONS[name], torch.from_numpy)
    assert names
    assert all(isinstance(part, torch.Tensor) for part in found)
