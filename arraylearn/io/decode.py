"""Plain JSON and a set of arrays as a fitted estimator; only classes of the registry are ever made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.probe import parse
from arraylearn.io.registry import ESTIMATORS, RECORDS, check_estimator

__all__ = ["Decoder"]

_DTYPES = {
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
}
_TEXT = re.compile(r"<U([0-9]{1,9})")
_GENERATORS = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
# Parameters that have a value per class or column.
_LISTS = {"categorical_features", "monotonic_cst", "priors"}
# NumPy does not check these positions in the state of a generator, which index its buffers.
_POSITIONS = {"pos": 624, "buffer_pos": 4}


class Decoder:
    """The inverse of `Encoder`; `backend` replaces that of every estimator.

    `most_bytes` limits arrays of text, whose size in memory is not bounded by that of the file. `defaults`
    lists parameters that the file does not have, which take their defaults.
    """

    def __init__(
        self, arrays: Mapping[str, HostArray], backend: str | None, most_bytes: int = 1 << 26
    ) -> None:
        self.defaults: list[str] = []
        self._arrays = arrays
        self._backend = backend
        self._most_bytes = most_bytes

    def decode(self, value: Any) -> Any:
        """Return the object that the JSON value `value` stands for."""
        if isinstance(value, list):
            return [self.decode(part) for part in value]
        if not isinstance(value, dict):
            return value
        for kind, make in self._kinds().items():
            if kind in value:
                return make(value)
        raise ValueError(f"it holds {sorted(value)[:5]}, which this version of arraylearn does not know.")

    def _kinds(self) -> dict[str, Any]:
        return {
            "float": lambda value: float(value["float"]),
            "tuple": lambda value: tuple(self.decode(part) for part in value["tuple"]),
            "dict": lambda value: {self.decode(key): self.decode(part) for key, part in value["dict"]},
            "array": self._decode_array,
            "values": self._decode_values,
            "generator": self._decode_generator,
            "estimator": self._decode_estimator,
            "record": self._decode_record,
        }

    def _decode_array(self, value: dict[str, Any]) -> Array:
        name = value["array"]
        array = self._arrays[name].T if name.endswith("T") else self._arrays[name]
        if array.dtype.name not in _DTYPES:
            raise ValueError(f"array {name!r} has dtype {array.dtype.name}.")
        return array[()] if value.get("is_scalar") else array

    def _decode_values(self, value: dict[str, Any]) -> Any:
        parts, dtype = [self.decode(part) for part in value["values"]], value["dtype"]
        text = _TEXT.fullmatch(dtype)
        if dtype != "|O" and (text is None or not all(type(part) is str for part in parts)):
            raise ValueError(f"it holds an array of {dtype!r}.")
        if text is not None and 4 * int(text[1]) * len(parts) > self._most_bytes:
            raise ValueError(f"it holds {len(parts)} texts of up to {text[1]} characters.")
        array = np.empty(len(parts), dtype=dtype)
        array[:] = parts
        array = array.reshape(value["shape"])
        return array[()] if value.get("is_scalar") else array

    def _decode_generator(self, value: dict[str, Any]) -> Any:
        if value["bits"] not in _GENERATORS or value["generator"] not in ("RandomState", "Generator"):
            raise ValueError(f"it holds an unknown random generator {value['bits']!r}.")
        state = self.decode(value["state"])
        for part in (state, state["state"]):
            for name in _POSITIONS.keys() & part.keys():
                if type(part[name]) is not int or not 0 <= part[name] <= _POSITIONS[name]:
                    raise ValueError(f"a random generator has its {name} at {part[name]!r}.")
        bits = getattr(np.random, value["bits"])()
        bits.state = state
        return getattr(np.random, value["generator"])(bits)

    def _decode_estimator(self, value: dict[str, Any]) -> Any:
        tag = value["estimator"]
        kind: Any = _look_up(ESTIMATORS, tag)[0]
        state = {name: self.decode(part) for name, part in value["state"].items()}
        for name, parameter in inspect.signature(kind).parameters.items():
            if name not in state:
                state[name] = parameter.default
                self.defaults.append(f"{tag}.{name}")
            if isinstance(state[name], np.ndarray) and state[name].ndim and name not in _LISTS:
                raise ValueError(f"{tag}.{name} must not be an array.")
        made = kind.__new__(kind)
        made.__setstate__(state)
        check_estimator(made)
        if self._backend is not None:
            made.backend = self._backend
        elif made.backend is not None and made.backend != "auto":
            parse(made.backend)
        return made

    def _decode_record(self, value: dict[str, Any]) -> Any:
        fields = {name: self.decode(part) for name, part in value["fields"].items()}
        return _look_up(RECORDS, value["record"])(**fields)


def _look_up(registry: Mapping[str, Any], tag: str) -> Any:
    if tag not in registry:
        raise ValueError(f"it holds a {tag!r}, which this version of arraylearn does not know.")
    return registry[tag]
