"""NumPy body of `backend.ops.distinct.number_values`: the portable one, until a call is worth compiling."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy as xp
import numpy as np

from arraylearn.backend.ops.distinct import number_by_sample

Host = np.ndarray[Any, Any]

__all__ = ["number_values"]


def number_values(columns: Host, most: int) -> tuple[Host, Host] | None:
    return number_by_sample(xp, columns, most)
