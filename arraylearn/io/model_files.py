"""`save` and `load`: one file of the safetensors format per model.

The arrays are the file's tensors; everything else is JSON in its header, beside a digest of both. Nothing in
such a file is executed and it names no class to import, so that an untrusted file can at worst be refused.
Its contents are checked (digest, shapes and dtypes, every index) before an estimator is made of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from arraylearn._typing import HostArray
from arraylearn._version import __version__
from arraylearn.backend.errors import warn_caller
from arraylearn.backend.selector import resolve
from arraylearn.io.decode import Decoder
from arraylearn.io.drafts import draft_of
from arraylearn.io.encode import Encoder
from arraylearn.io.registry import ESTIMATOR_TAGS

__all__ = ["load", "save"]

_FORMAT = 3
# Reading may take so many times the size of the file in memory, plus the needs of a small model.
_MOST_TIMES, _SPARE_BYTES = 8, 1 << 25
# Bytes of a Python object for each character that begins one in JSON: lists and objects, texts, other items.
_BYTES_OF = {"[": 72, "{": 240, '"': 32, ",": 32}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file.

    Parameters
    ----------
    model : estimator
        Of this package, fitted or not, on any backend.
    path : path-like
        The file, by custom ``"....safetensors"``. It is replaced only when the new one is complete and on
        the disk.

    Raises
    ------
    TypeError
        If `model` is not a learner of this package, or has a part that only pickle could write (a function as
        kernel or measure).
    OSError
        Where the file cannot be written; a file that was there stays as it is.

    See Also
    --------
    load : The inverse.

    Examples
    --------
    >>> import arraylearn as al
    >>> import os, tempfile
    >>> iris = al.datasets.load_iris()
    >>> path = os.path.join(tempfile.mkdtemp(), "iris.safetensors")
    >>> al.save(al.c45().fit(iris.X, iris.y), path)
    >>> al.load(path).predict(iris.X[:2]).tolist()
    [0, 0]
    """
    if type(model) not in ESTIMATOR_TAGS:
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise TypeError(
            f"`model` must be a learner of arraylearn; got {kind}. Of a pipeline save the steps, of a search "
            "its `best_estimator_`."
        )
    encoder = Encoder()
    content = encoder.encode(model, type(model).__name__)
    about = json.dumps({"format": _FORMAT, "written_by": _versions(), "model": content})
    metadata = {"arraylearn": about, "sha256": _digest(about, encoder.arrays)}
    with draft_of(path) as draft:
        try:
            save_file(encoder.arrays, draft, metadata=metadata)
        except SafetensorError as error:  # raised for errors of the operating system as well
            raise OSError(f"`path`: {str(path)!r} cannot be written: {error}") from error


def _versions() -> dict[str, str]:
    return {
        "arraylearn": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "scikit-learn": sklearn.__version__,
    }


def _digest(about: str, arrays: Mapping[str, HostArray]) -> str:
    """Return the SHA-256 of the JSON and the arrays of a model."""
    digest = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name} {array.dtype.str} {array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def load(path: str | os.PathLike[str], *, backend: str | None = None) -> Any:
    """Read an estimator from a file.

    Parameters
    ----------
    path : path-like
        Written by `save`.
    backend : str, optional
        Where it shall compute from now on; default: as it was saved.

    Returns
    -------
    estimator
        Equal to the one saved. Its arrays are on the host; the first prediction moves them to its place.

    Raises
    ------
    ValueError
        For a file that is not one of ours, of another format, or damaged.
    BackendUnavailableError
        For a `backend` that does not work here.

    Warns
    -----
    UserWarning
        For a parameter that the file does not have: it takes its default.
    """
    if backend is not None:
        resolve(backend)
    name = os.fspath(path)
    size = os.stat(path).st_size
    try:
        about, arrays = _read(name, _MOST_TIMES * size + _SPARE_BYTES)
    except OSError:
        raise
    except Exception as error:  # a damaged file may cause any error
        raise ValueError(f"`path` must name a file written by `save`; {name!r}: {error}") from error
    if about["format"] != _FORMAT:
        remedy = "Update arraylearn." if about["format"] > _FORMAT else "Fit the model anew, and save it."
        raise ValueError(
            f"`path`: {name!r} has format {about['format']}, and this version of arraylearn reads format "
            f"{_FORMAT}. {remedy} (It was written by {_origin(about)}.)"
        )
    decoder = Decoder(arrays, backend, most_bytes=_MOST_TIMES * size + _SPARE_BYTES)
    try:
        model = decoder.decode(about["model"])
        if type(model) not in ESTIMATOR_TAGS:
            raise ValueError("it holds no estimator.")
    except Exception as error:  # a damaged file may cause any error
        raise ValueError(f"`path`: {name!r} holds no sound model: {error}") from error
    if decoder.defaults:
        warn_caller(
            f"{name!r} was written by {_origin(about)} and lacks {', '.join(decoder.defaults)}: each takes "
            "its default.",
            UserWarning,
        )
    return model


def _read(name: str, most_bytes: int) -> tuple[dict[str, Any], dict[str, HostArray]]:
    """Read the JSON and the arrays of a file, once its size and digest are known to be right."""
    with safe_open(name, framework="numpy") as file:
        metadata = file.metadata() or {}
        if "arraylearn" not in metadata:
            raise ValueError("it holds tensors of something else.")
        text = metadata["arraylearn"]
        if sum(cost * text.count(mark) for mark, cost in _BYTES_OF.items()) > most_bytes:
            raise ValueError("its header would take more memory than a model of its size needs.")
        about = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(about, dict) or type(about.get("format")) is not int:
            raise ValueError("it has no format.")
        if about["format"] != _FORMAT:
            return about, {}
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
    if metadata.get("sha256") != _digest(text, arrays):
        raise ValueError("it is damaged: its content has another digest than it had when it was written.")
    return about, arrays


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"its header holds {name}.")


def _origin(about: dict[str, Any]) -> str:
    """Return the packages that wrote a file, with their versions."""
    versions = about.get("written_by") or {"arraylearn": about.get("version", "?")}
    return ", ".join(f"{package} {version}" for package, version in versions.items())[:200]
