"""Types for arrays: `Array` lives at a place (any library and device), `HostArray` is a NumPy array."""

from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Array", "Device", "Dtype", "HostArray", "Namespace"]

# The array libraries share no base class, and a Protocol of the whole standard would promise more than
# mypy can check across them: for the type checker these are Any, the names are for the reader.
Array: TypeAlias = Any
Device: TypeAlias = Any
Dtype: TypeAlias = Any
Namespace: TypeAlias = ModuleType | Any  # what kernels call `xp`
HostArray: TypeAlias = np.ndarray[Any, Any]
