"""Plain JSON and a set of arrays as a fitted estimator; nothing but classes of this package is ever made."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["Decoder"]

_GENERATORS = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}


class Decoder:
    """The inverse of `Encoder`.

    Parameters
    ----------
    arrays : mapping of str to array
        The arrays of the file.
    backend : str, optional
        Replaces the `backend` of every estimator.
    """

    def __init__(self, arrays: Mapping[str, Any], backend: str | None) -> None:
        self._arrays = arrays
        self._backend = backend

    def decode(self, value: Any) -> Any:
        """Return what the JSON value `value` stands for."""
        if isinstance(value, list):
            return [self.decode(part) for part in value]
        if not isinstance(value, dict):
            return value
        for kind, make in self._kinds().items():
            if kind in value:
                return make(value)
        raise ValueError(f"the file holds {sorted(value)}, which this version of arraylearn does not know.")

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

    def _decode_array(self, value: dict[str, Any]) -> Any:
        name = value["array"]
        array = self._arrays[name].T if name.endswith("T") else self._arrays[name]
        return array[()] if value.get("is_scalar") else array

    def _decode_values(self, value: dict[str, Any]) -> Any:
        array = np.empty(len(value["values"]), dtype=value["dtype"])
        array[:] = [self.decode(part) for part in value["values"]]
        array = array.reshape(value["shape"])
        return array[()] if value.get("is_scalar") else array

    def _decode_generator(self, value: dict[str, Any]) -> Any:
        if value["bits"] not in _GENERATORS or value["generator"] not in ("RandomState", "Generator"):
            raise ValueError(f"the file holds an unknown random generator {value['bits']!r}.")
        bits = getattr(np.random, value["bits"])()
        bits.state = self.decode(value["state"])
        return getattr(np.random, value["generator"])(bits)

    def _decode_estimator(self, value: dict[str, Any]) -> Any:
        kind = _find(value["estimator"])
        if not hasattr(kind, "get_params"):
            raise ValueError(f"the file names {value['estimator']!r} as an estimator, which it is not.")
        made = kind.__new__(kind)
        made.__setstate__({name: self.decode(part) for name, part in value["state"].items()})
        if self._backend is not None and "backend" in made.__dict__:
            made.backend = self._backend
        return made

    def _decode_record(self, value: dict[str, Any]) -> Any:
        kind = _find(value["record"])
        if not (dataclasses.is_dataclass(kind) or issubclass(kind, tuple)):
            raise ValueError(f"the file names {value['record']!r} as a record, which it is not.")
        return kind(**{name: self.decode(part) for name, part in value["fields"].items()})


def _find(name: str) -> Any:
    """Return the class ``"module:class"``, if it is one of ours."""
    module, _, path = name.partition(":")
    if module.split(".")[0] != "arraylearn":
        raise ValueError(f"the file names {name!r}, which is not a class of arraylearn: it is not loaded.")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"the file needs {name!r}, which arraylearn does not have here: another version wrote it."
        ) from error
    if not isinstance(found, type) or not found.__module__.startswith("arraylearn."):
        raise ValueError(f"the file names {name!r}, which is not a class of arraylearn: it is not loaded.")
    return found
