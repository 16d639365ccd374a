"""The three types that every kernel speaks of."""

from types import ModuleType
from typing import Any, TypeAlias

__all__ = ["Array", "Device", "Namespace"]

# The array libraries share no base class, and a Protocol of the whole standard would promise more than
# mypy can check across them; the names carry the meaning.
Array: TypeAlias = Any
Device: TypeAlias = Any
Namespace: TypeAlias = ModuleType | Any
