"""A fitted estimator as plain JSON and a set of arrays.

Every value becomes a JSON value. What JSON lacks is an object whose first key names its kind:
``{"tuple": [...]}``, ``{"array": "3"}``, ``{"record": "trees", "fields": {...}}``. Arrays are kept
apart, each of them once; estimators and records are named by the tags of the registry.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from arraylearn._typing import HostArray
from arraylearn.backend.namespace import is_array, to_host
from arraylearn.io.fields import fields_of
from arraylearn.io.registry import ESTIMATOR_TAGS, RECORD_TAGS

__all__ = ["Encoder"]


class Encoder:
    """Turns values into JSON values and gathers their arrays by the names that the JSON mentions.

    The `arrays` are on the host, C-contiguous; ``"3T"`` is to be transposed.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, HostArray] = {}
        self._names: dict[int, str] = {}
        self._alive: list[Any] = []  # an id is only unique among the living

    def encode(self, value: Any, path: str) -> Any:
        """Return the JSON value of `value`; `path` is its location in the model, for errors."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return [self.encode(part, f"{path}[{i}]") for i, part in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.encode(part, f"{path}[{i}]") for i, part in enumerate(value)]}
        if type(value) is dict:
            return self._encode_dict(value, path)
        if isinstance(value, np.generic):
            return self._encode_array(np.asarray(value), path) | {"is_scalar": True}
        if is_array(value) and type(value) is not np.ma.MaskedArray:
            return self._encode_array(value, path)
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return self._encode_generator(value, path)
        return self._encode_object(value, path)

    def _encode_dict(self, value: dict[Any, Any], path: str) -> Any:
        return {
            "dict": [
                [self.encode(key, path), self.encode(part, f"{path}[{key!r}]")] for key, part in value.items()
            ]
        }

    def _encode_array(self, value: Any, path: str) -> dict[str, Any]:
        if id(value) in self._names:
            return {"array": self._names[id(value)]}
        host = to_host(value)
        if host.dtype.kind in "OUSmM":
            values = [self.encode(part, path) for part in host.ravel().tolist()]
            return {"values": values, "dtype": host.dtype.str, "shape": list(host.shape)}
        # the order in memory is kept, because sums in another order differ in the last bit
        is_turned = host.flags.f_contiguous and not host.flags.c_contiguous
        name = self._names[id(value)] = str(len(self.arrays)) + ("T" if is_turned else "")
        self._alive.append(value)
        self.arrays[name] = np.ascontiguousarray(host.T if is_turned else host).reshape(
            host.shape[::-1] if is_turned else host.shape
        )
        return {"array": name}

    def _encode_generator(self, value: Any, path: str) -> Any:
        bits = value._bit_generator if isinstance(value, np.random.RandomState) else value.bit_generator
        return {
            "generator": type(value).__name__,
            "bits": type(bits).__name__,
            "state": self.encode(bits.state, path),
        }

    def _encode_object(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in ESTIMATOR_TAGS:
            state = {key: part for key, part in value.__getstate__().items() if key != "_sklearn_version"}
            return {"estimator": ESTIMATOR_TAGS[kind], "state": self._encode_fields(state, path)}
        if kind in RECORD_TAGS:
            return {"record": RECORD_TAGS[kind], "fields": self._encode_fields(fields_of(value), path)}
        raise TypeError(
            f"`model` holds a {kind.__module__}.{kind.__qualname__} at {path}, which a file without pickle "
            "cannot hold. Replace it (a kernel or measure by its name, a scikit-learn estimator by one of "
            "ours), or use pickle or joblib."
        )

    def _encode_fields(self, fields: dict[str, Any], path: str) -> dict[str, Any]:
        return {name: self.encode(part, f"{path}.{name}") for name, part in fields.items()}
