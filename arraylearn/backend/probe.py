"""Find out which backends work here, by a tiny operation on each: an import proves nothing about a GPU."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import threading
import warnings
from typing import NamedTuple

from arraylearn.backend.namespace import HOST, Place, load_namespace, to_host

__all__ = ["BACKENDS", "Availability", "BackendName", "backend_info", "forget_probes", "parse", "probe"]

# The names a user may ask for, and how to install what is missing.
BACKENDS = {
    "numpy": "pip install numpy",
    "torch": "pip install 'arraylearn[torch]'",
    "cupy": "pip install 'arraylearn[cuda12]' or 'arraylearn[cuda13]', to match the CUDA of this machine",
    "array_api_strict": "pip install array-api-strict",
}
_DISTRIBUTIONS = {
    "numpy": ("numpy",),
    "torch": ("torch",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "array_api_strict": ("array-api-strict",),
}
_SPELLINGS = {"strict": "array_api_strict", "array-api-strict": "array_api_strict", "pytorch": "torch"}
_SHOWN = ("numpy", "torch", "torch:cuda", "cupy")


class BackendName(NamedTuple):
    """A parsed selector: the library, and its device as the user wrote it (or None)."""

    library: str
    device: str | None

    def __str__(self) -> str:
        return self.library if self.device is None else f"{self.library}:{self.device}"


class Availability(NamedTuple):
    """Whether a backend works on this machine, and if not: the reason and the remedy."""

    backend: str
    works: bool
    version: str | None
    device: str | None
    reason: str | None
    remedy: str | None

    def __str__(self) -> str:
        head = f"{self.backend:<12} {'works' if self.works else 'unavailable':<12} {self.version or '-':<14}"
        return head + (f"{self.device}" if self.works else f"{self.reason}; {self.remedy}")


def parse(name: str) -> BackendName:
    """Read a selector such as ``"numpy"``, ``"torch:cuda:0"`` or ``"cupy:1"``."""
    if not isinstance(name, str):
        raise TypeError(f"`backend` must be a string such as 'numpy' or 'torch:cuda:0'; got {name!r}.")
    library, _, device = name.strip().partition(":")
    library = _SPELLINGS.get(library, library)
    if library not in BACKENDS:
        known = ", ".join(repr(backend) for backend in (*BACKENDS, "auto"))
        raise ValueError(f"`backend` must be one of {known}, with an optional ':device'; got {name!r}.")
    if library == "numpy" and device not in ("", "cpu"):
        raise ValueError(f"`backend`: NumPy computes on the CPU only; got {name!r}. Write 'numpy'.")
    if library == "cupy" and device and not device.removeprefix("cuda:").isdigit():
        raise ValueError(f"`backend`: a CuPy device is a number, as in 'cupy:1'; got {name!r}.")
    return BackendName(library, device or None)


_probes: dict[BackendName, Place | Availability] = {}
_probe_lock = threading.Lock()


def probe(name: BackendName) -> Place | Availability:
    """Return the place where a backend computes, or why it cannot; each is tried once."""
    with _probe_lock:
        if name not in _probes:
            _probes[name] = _try(name)
        return _probes[name]


def forget_probes() -> None:
    """Try every backend afresh when it is next asked for (after plugging in a GPU, and in tests)."""
    with _probe_lock:
        _probes.clear()


def _try(name: BackendName) -> Place | Availability:
    if importlib.util.find_spec(name.library) is None:
        return _unavailable(name, "not installed", BACKENDS[name.library])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy warns about a missing CUDA toolkit while it is imported
            place = _place(name)
            one = place.xp.ones((3,), dtype=place.xp.float32, device=place.device)
            total = float(to_host(place.xp.sum(one * 2)))
    except Exception as error:
        return _unavailable(name, *_explain(name, error))
    if total != 6.0:
        return _unavailable(name, f"1 + 1 gave {total / 3}", "check the installation of this library")
    return place


def _place(name: BackendName) -> Place:
    if name.library == "array_api_strict":
        strict = importlib.import_module("array_api_strict")
        return Place(strict, strict.Device(name.device or "CPU_DEVICE"))
    if name.library == "numpy":
        return HOST
    library = load_namespace(name.library)
    if name.library == "cupy":
        index = int(name.device.removeprefix("cuda:")) if name.device else 0
        return Place(library, library.cuda.Device(index))
    # torch itself turns "cuda" into "cuda:0"
    return Place(library, library.empty((0,), device=name.device or "cpu").device)


def _explain(name: BackendName, error: Exception) -> tuple[str, str]:
    """Turn a library's exception into a reason and a remedy."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    lower = str(error).lower()
    if isinstance(error, ImportError):
        return f"installed but cannot be imported ({text})", BACKENDS[name.library]
    if "not compiled with cuda" in lower:
        return f"this torch is a CPU build ({text})", "install a CUDA build of torch"
    if "driver" in lower:
        return f"no driver ({text})", "install the driver of this machine's GPU, or use backend='numpy'"
    if "device" in lower or "ordinal" in lower:
        return f"no device ({text})", "use a machine with a GPU, another device number, or backend='numpy'"
    return f"a test operation failed ({text})", "check the installation, or use backend='numpy'"


def _unavailable(name: BackendName, reason: str, remedy: str) -> Availability:
    return Availability(str(name), False, _version(name.library), None, reason, remedy)


def _version(library: str) -> str | None:
    for distribution in _DISTRIBUTIONS[library]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    return None


def backend_info() -> list[Availability]:
    """List which backends work on this machine, on which device, and why the others do not.

    torch on the CPU computes where it is named (``backend="torch"``, `use_backend`, `set_backend`, or the
    environment); tensors on the CPU are otherwise computed with by NumPy on the same memory.

    Returns
    -------
    list of Availability
        One entry each for ``numpy``, ``torch``, ``torch:cuda`` and ``cupy``; ``print`` shows a line.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.backend_info()[0].works
    True
    """
    entries = []
    for text in _SHOWN:
        name = parse(text)
        found = probe(name)
        if isinstance(found, Place):
            found = Availability(text, True, _version(name.library), _describe(found), None, None)
        entries.append(found)
    return entries


def _describe(place: Place) -> str:
    library = place.xp
    if place.library == "cupy":
        properties = library.cuda.runtime.getDeviceProperties(place.device.id)
        return f"cuda:{place.device.id} ({properties['name'].decode()})"
    if place.library == "torch" and place.device.type == "cuda":
        name = "CUDA"
        with contextlib.suppress(Exception):  # some drivers refuse to give the name, which is only shown
            name = library.cuda.get_device_name(place.device)
        return f"{place.device} ({name})"
    return str(place.device)
