"""Where the tools of this folder keep what they build."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_directory"]


def cache_directory(tool: str, variable: str) -> Path:
    """The directory the environment variable names, or the tool's folder in the user's cache directory."""
    if chosen := os.environ.get(variable):
        return Path(chosen)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / tool
