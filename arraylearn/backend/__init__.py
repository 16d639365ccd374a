"""The only room that names torch and CuPy: choose a backend, move data, and what the standard lacks."""

from arraylearn.backend.dispatch import get_compiled, set_compiled
from arraylearn.backend.errors import (
    BackendFallbackWarning,
    BackendUnavailableError,
    LongRunWarning,
    MemoryBudgetError,
)
from arraylearn.backend.memory import get_memory_budget, set_memory_budget
from arraylearn.backend.probe import backend_info
from arraylearn.backend.selector import choose_place, get_backend, set_backend, use_backend
from arraylearn.backend.threads import get_num_threads, set_num_threads

__all__ = [
    "BackendFallbackWarning",
    "BackendUnavailableError",
    "LongRunWarning",
    "MemoryBudgetError",
    "backend_info",
    "choose_place",
    "get_backend",
    "get_compiled",
    "get_memory_budget",
    "get_num_threads",
    "set_backend",
    "set_compiled",
    "set_memory_budget",
    "set_num_threads",
    "use_backend",
]
