"""Exceptions and warnings of the package."""

import contextlib
import sys
import warnings
from pathlib import Path

__all__ = [
    "BackendFallbackWarning",
    "BackendUnavailableError",
    "LongRunWarning",
    "MemoryBudgetError",
    "warn_caller",
]

# Files that are not the user's code: this package, and the module that runs its context managers.
_OURS = (str(Path(__file__).parents[1]), contextlib.__file__)


class BackendUnavailableError(ImportError, RuntimeError):
    """A backend was named and cannot compute here; the message holds the reason and the remedy."""


class BackendFallbackWarning(UserWarning):
    """A backend, or Numba, is missing and something else computes instead: the stated fallback, or NumPy."""


class LongRunWarning(UserWarning):
    """Work that is about to begin will take minutes or more; the message has the estimate and a remedy."""


class MemoryBudgetError(MemoryError):
    """Work does not fit the memory budget, or the device, even in the smallest chunk."""


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here, however deep the call is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
