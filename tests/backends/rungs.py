"""The ladder of proof: every array library and device the tests run on, and what each can do.

This is the one place that knows.  Fixtures, skips and the tables in the README come from `RUNGS`;
what a kernel or an estimator cannot do on a rung is declared in `EXCEPTIONS`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

__all__ = [
    "DEFAULT",
    "EXCEPTIONS",
    "RUNGS",
    "Rung",
    "current",
    "declined",
    "dtype_name",
    "named",
    "required",
    "select",
]

DTYPE_NAMES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
)

# {kernel or estimator: {rung: why it cannot serve that rung}}.  Tests name their subject with
# @pytest.mark.subject("name") and are skipped with this reason.
EXCEPTIONS: dict[str, dict[str, str]] = {}

_active: list[Rung] = []


@dataclass(frozen=True)
class Rung(ABC):
    """One array library on one device.

    Attributes
    ----------
    name : what ``--rungs`` calls it
    float_dtypes : names of the floating dtypes the device has
    catches : what `forbid_syncs` refuses: "shapes" (masks, nonzero, unique), "scalars" (float(x), if x.any())
    """

    name: str
    float_dtypes: tuple[str, ...] = ("float32", "float64")
    catches: frozenset[str] = frozenset()

    def prepare(self) -> None:  # noqa: B027  (most rungs need nothing)
        """Do what must happen before any test module is imported."""

    @abstractmethod
    def unavailable(self) -> str | None:
        """Why this rung cannot run here, or None."""

    @abstractmethod
    def load(self) -> Any:
        """The array namespace."""

    @property
    @abstractmethod
    def device(self) -> Any:
        """The device the test arrays live on, as ``array_api_compat.device`` reports it."""

    @abstractmethod
    def to_host(self, array: Any) -> np.ndarray:
        """The numbers as a NumPy array; a sync."""

    @contextlib.contextmanager
    def active(self) -> Iterator[Any]:
        """Switch the rung on around a test; yields the emulated device where there is one."""
        _active.append(self)
        try:
            with self._switched_on() as emulated_device:
                yield emulated_device
        finally:
            _active.pop()

    def _switched_on(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def forbid_syncs(self) -> AbstractContextManager[Any]:
        """Inside, an operation that makes the host wait raises, as far as `catches` says."""
        return contextlib.nullcontext()

    def counts(self) -> dict[str, int] | None:
        """Totals of ``syncs`` and ``launches`` so far, where the rung sees them; None: it sees neither."""
        return None

    def from_host(self, values: Any, dtype: Any = None) -> Any:
        """A fresh array on the device; `dtype` is a name or a dtype, by default that of `values`."""
        xp = self.load()
        name = None if dtype is None else dtype_name(xp, dtype)
        return xp.asarray(np.array(values, dtype=name, order="C"), device=self.device)


def dtype_name(xp: Any, dtype: Any) -> str:
    """``"float32"`` for the float32 of any namespace, and for the name itself."""
    if isinstance(dtype, str):
        return dtype
    for name in DTYPE_NAMES:
        if getattr(xp, name, None) == dtype:
            return name
    raise ValueError(f"{dtype!r} is not a dtype of {xp.__name__}")


def _not_installed(*modules: str) -> str | None:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


# ---- the rungs


class NumpyRung(Rung):
    def unavailable(self) -> str | None:
        return None

    def load(self) -> Any:
        return importlib.import_module("array_api_compat.numpy")

    @property
    def device(self) -> str:
        return "cpu"

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array)


class CompiledRung(NumpyRung):
    """NumPy with the bodies that Numba compiles, for calls of any size."""

    def unavailable(self) -> str | None:
        return _not_installed("numba")

    @contextlib.contextmanager
    def _switched_on(self) -> Iterator[None]:
        from arraylearn.backend import set_compiled

        set_compiled("always")
        try:
            yield
        finally:
            set_compiled(None)


@dataclass(frozen=True)
class StrictRung(Rung):
    """Only what the standard promises, on a device that is not the default one; syncs are counted."""

    device_name: str = "device1"
    _syncs: list[str] = field(default_factory=list, repr=False, compare=False)

    def unavailable(self) -> str | None:
        return _not_installed("array_api_strict")

    def load(self) -> Any:
        return importlib.import_module("array_api_strict")

    @property
    def device(self) -> Any:
        return self.load().Device(self.device_name)

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array.to_device(self.load().Device("CPU_DEVICE")))

    @contextlib.contextmanager
    def _switched_on(self) -> Iterator[None]:
        with _noted_syncs(self.load(), self._syncs), np.errstate(all="ignore"):  # a device does not warn
            yield

    @contextlib.contextmanager
    def forbid_syncs(self) -> Iterator[None]:
        xp = self.load()
        with xp.ArrayAPIStrictFlags(data_dependent_shapes=False, boolean_indexing=False), _no_scalars(xp):
            yield

    def counts(self) -> dict[str, int]:
        return {"syncs": len(self._syncs)}


SCALARS = ("__bool__", "__float__", "__int__", "__index__")
DATA_DEPENDENT = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")


def _no_scalars(xp: Any) -> AbstractContextManager[None]:
    """Inside, array_api_strict refuses float(x), int(x), bool(x) and range(x)."""

    def refusal(name: str) -> Any:
        def refuse(array: Any) -> Any:
            raise RuntimeError(f"host synchronisation by {name} of an array")

        return refuse

    return _replaced([(type(xp.zeros(0)), name, refusal(name)) for name in SCALARS])


def _noted_syncs(xp: Any, syncs: list[str]) -> AbstractContextManager[None]:
    """Inside, what would make the host wait on a device adds its name to `syncs`."""
    array_type = type(xp.zeros(0))

    def noting(name: str, function: Any, is_sync: Any = lambda *arguments: True) -> Any:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if is_sync(*arguments):
                syncs.append(name)
            return function(*arguments, **options)

        return call

    def is_copied_home(array: Any, device: Any, *stream: Any) -> bool:
        return array.device != device

    def has_mask(array: Any, key: Any) -> bool:
        keys = key if isinstance(key, tuple) else (key,)
        return any(isinstance(one, array_type) and one.dtype == xp.bool for one in keys)

    tests = {"to_device": is_copied_home, "__getitem__": has_mask}
    methods = [
        (array_type, name, noting(name, getattr(array_type, name), tests.get(name, lambda *arguments: True)))
        for name in (*SCALARS, *tests)
    ]
    functions = [(xp, name, noting(name, getattr(xp, name))) for name in DATA_DEPENDENT]
    return _replaced([*methods, *functions])


@contextlib.contextmanager
def _replaced(attributes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Set attributes (owner, name, value) for the block."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in attributes]
    for owner, name, value in attributes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


class TorchRung(Rung):
    """torch on the CPU; it computes with its own tensors, as where the backend is named."""

    def unavailable(self) -> str | None:
        return _not_installed("torch")

    def load(self) -> Any:
        from arraylearn.backend.namespace import load_namespace

        return load_namespace("torch")

    @property
    def device(self) -> Any:
        return self.load().device("cpu")

    def to_host(self, array: Any) -> np.ndarray:
        return array.detach().cpu().numpy()

    def _switched_on(self) -> AbstractContextManager[Any]:
        from arraylearn.backend.selector import compute_at_home

        return compute_at_home()  # torch, not NumPy on the memory of the tensors


@contextlib.contextmanager
def _kernels_on_cpu() -> Iterator[None]:
    """Run kernels of CUDA C on the CPU, blocks and threads in a shuffled order; the host stays with NumPy."""
    from arraylearn.backend.dispatch import tuned, use_compiled
    from arraylearn.backend.gpu import driver as cuda
    from tests.backends.cuda_on_cpu import driver
    from tests.backends.cuda_on_cpu.compiler import compile_for_torch

    driver.load()
    with (
        use_compiled("auto"),
        tuned(compiled_values=1 << 62),
        driver.shuffled(seed=1),
        mock.patch.object(cuda, "compile_cuda", compile_for_torch),
    ):
        yield


@dataclass(frozen=True)
class FakeCudaRung(TorchRung):
    """torch on a CUDA device that computes on the CPU; scattered additions happen in a shuffled order."""

    _gpus: list[Any] = field(default_factory=list, repr=False, compare=False)

    def unavailable(self) -> str | None:
        reason = super().unavailable()
        if reason is None:
            from tests.backends import torch_fake_cuda

            reason = torch_fake_cuda.unavailable()
        return reason

    @property
    def device(self) -> Any:
        return self.load().device("cuda", 0)

    @contextlib.contextmanager
    def _switched_on(self) -> Iterator[Any]:
        from tests.backends.torch_fake_cuda import FakeCuda

        with _kernels_on_cpu(), FakeCuda(shuffle=True) as gpu:
            self._gpus.append(gpu)
            try:
                yield gpu
            finally:
                self._gpus.pop()

    @property
    def gpu(self) -> Any:
        """The FakeCuda of the running test."""
        if not self._gpus:
            raise RuntimeError("the fake_cuda rung is not active: use `with rung.active():`")
        return self._gpus[-1]

    def forbid_syncs(self) -> AbstractContextManager[Any]:
        return self.gpu.no_sync()

    def counts(self) -> dict[str, int]:
        from tests.backends.cuda_on_cpu import driver

        return {"syncs": len(self.gpu.sync_log), "launches": self.gpu.launches + driver.count_launches()}


@dataclass(frozen=True)
class CupyRung(Rung):
    """The real CuPy wheel on an emulated device; the blocks of a kernel run in a shuffled order."""

    nvrtc: bool = False
    _failures: list[str] = field(default_factory=list, repr=False, compare=False)

    def prepare(self) -> None:
        if self.nvrtc:
            os.environ["CUPY_ON_CPU_NVRTC"] = "1"
        try:
            importlib.import_module("tests.backends.cupy_on_cpu")
        except (ImportError, RuntimeError) as error:
            self._failures.append(str(error))

    def unavailable(self) -> str | None:
        reason = _not_installed("cupy") or next(iter(self._failures), None)
        if reason is None and self._emulator is None:
            reason = "the emulator was not loaded before CuPy: call prepare() first"
        return reason

    @property
    def _emulator(self) -> Any:
        return sys.modules.get("tests.backends.cupy_on_cpu")

    def load(self) -> Any:
        return importlib.import_module("array_api_compat.cupy")

    @property
    def device(self) -> Any:
        return importlib.import_module("cupy").cuda.Device(0)

    def to_host(self, array: Any) -> np.ndarray:
        return importlib.import_module("cupy").asnumpy(array)

    def _switched_on(self) -> AbstractContextManager[Any]:
        return _kernels_on_cpu()

    def forbid_syncs(self) -> AbstractContextManager[Any]:
        return self._emulator.no_sync()

    def counts(self) -> dict[str, int]:
        totals = self._emulator.counters()
        # CuPy follows each copy to the host with a synchronisation: one sync, not two
        return {"syncs": max(totals["d2h"], totals["sync"]), "launches": totals["launches"]}


SHAPES_AND_SCALARS = frozenset({"shapes", "scalars"})

RUNGS: dict[str, Rung] = {
    rung.name: rung
    for rung in (
        NumpyRung("numpy"),
        CompiledRung("compiled"),
        StrictRung("strict", catches=SHAPES_AND_SCALARS),
        StrictRung("strict_float32", ("float32",), SHAPES_AND_SCALARS, device_name="no_float64"),
        TorchRung("torch"),
        FakeCudaRung("fake_cuda", catches=SHAPES_AND_SCALARS),
        CupyRung("cupy", catches=SHAPES_AND_SCALARS),
        CupyRung("cupy_nvrtc", catches=SHAPES_AND_SCALARS, nvrtc=True),
    )
}
DEFAULT = ("numpy", "compiled", "strict", "strict_float32", "torch")

# What a test can ask of a rung with @pytest.mark.rungs("name"), beside the names of the rungs themselves.
GROUPS: dict[str, frozenset[str]] = {
    "host": frozenset({"numpy", "compiled"}),  # NumPy's own bodies
    "quick": frozenset({"numpy", "compiled", "torch"}),  # many rows take no seconds
    "library": frozenset(RUNGS) - {"strict", "strict_float32"},  # what a user computes with
    "float64": frozenset(name for name, rung in RUNGS.items() if "float64" in rung.float_dtypes),
    "guarded": frozenset(name for name, rung in RUNGS.items() if rung.catches),  # `forbid_syncs` can tell
    "syncs": frozenset({"strict", "fake_cuda", "cupy", "cupy_nvrtc"}),  # counted: see `Rung.counts`
    "launches": frozenset({"fake_cuda", "cupy", "cupy_nvrtc"}),  # counted as well
}


# ---- selection


def select(names: str | Sequence[str]) -> tuple[Rung, ...]:
    """The rungs of a comma-separated list, in the order of the ladder."""
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    unknown = [name for name in wanted if name not in RUNGS]
    if unknown or not wanted:
        raise ValueError(f"unknown rung {', '.join(map(repr, unknown))}; choose from {', '.join(RUNGS)}")
    if {"cupy", "cupy_nvrtc"} <= set(wanted):
        raise ValueError(
            "'cupy' and 'cupy_nvrtc' compile kernels differently: run them in separate processes"
        )
    return tuple(rung for rung in RUNGS.values() if rung.name in wanted)


def named(*names: str) -> frozenset[str]:
    """The rungs of some names and groups."""
    return frozenset().union(*(GROUPS.get(name) or {RUNGS[name].name} for name in names))


def required() -> bool:
    """Whether a selected rung that is unavailable is an error rather than a skip."""
    settings = (os.environ.get(name, "") for name in ("CI", "ARRAYLEARN_REQUIRE_RUNGS"))
    return any(setting.lower() not in ("", "0", "false") for setting in settings)


def current() -> Rung:
    """The rung the running test is on; NumPy outside of one."""
    return _active[-1] if _active else RUNGS["numpy"]


def declined(subject: str, rung: Rung) -> str | None:
    """Why `subject` does not serve the rung, according to `EXCEPTIONS`, or None if it does."""
    return EXCEPTIONS.get(subject, {}).get(rung.name)
