"""What the backend room raises and warns with."""

__all__ = ["BackendFallbackWarning", "BackendUnavailableError", "MemoryBudgetError"]


class BackendUnavailableError(ImportError, RuntimeError):
    """A backend was asked for by name and cannot compute here; the message says why and what to do."""


class BackendFallbackWarning(UserWarning):
    """A backend was missing and the stated fallback computes instead."""


class MemoryBudgetError(MemoryError):
    """Work does not fit the memory budget, or the device, even in the smallest chunk."""
