"""`save` and `load`: one file of the safetensors format per model.

The arrays are the file's tensors; everything else is JSON in its header. Nothing in such a file is ever
executed, so that a file from a stranger can at worst be refused.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from arraylearn._version import __version__
from arraylearn.backend.selector import resolve
from arraylearn.io.decode import Decoder
from arraylearn.io.encode import Encoder, is_estimator

__all__ = ["load", "save"]

_FORMAT = 1


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file.

    Parameters
    ----------
    model : estimator
        Of this package, fitted or not, on any backend.
    path : path-like
        The file, by custom ``"....safetensors"``. It is replaced only when the new one is complete.

    Raises
    ------
    TypeError
        For what is no estimator of this package, or holds what cannot be written without pickle (a function
        as kernel or measure).

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
    if not is_estimator(model):
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise TypeError(
            f"`model` must be an estimator of arraylearn; got {kind}. Of a pipeline, save the steps."
        )
    encoder = Encoder()
    content = encoder.encode(model, type(model).__name__)
    about = {"format": _FORMAT, "version": __version__, "model": content}
    target = Path(path)
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        save_file(encoder.arrays, draft, metadata={"arraylearn": json.dumps(about)})
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


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
        Equal to the one saved. Its arrays are on the host; a prediction moves them where it computes, once.

    Raises
    ------
    ValueError
        For a file that is not one of ours, or of a later format.
    BackendUnavailableError
        For a `backend` that does not work here.
    """
    if backend is not None:
        resolve(backend)
    name = os.fspath(path)
    try:
        with safe_open(name, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("arraylearn", "null"))
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ValueError(f"`path` must name a file written by `save`; {name!r}: {error}.") from error
    if not isinstance(about, dict):
        raise ValueError(
            f"`path` must name a file written by `save`; {name!r} holds tensors of something else."
        )
    if about["format"] > _FORMAT:
        raise ValueError(
            f"{name!r} was written by arraylearn {about['version']} in format {about['format']}; this "
            f"version reads up to {_FORMAT}. Update arraylearn."
        )
    return Decoder(arrays, backend).decode(about["model"])
