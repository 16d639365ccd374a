"""Whole subtrees at once: array calls have nothing better than growth level by level, compiled loops have."""

from __future__ import annotations

from typing import Any

__all__ = ["grow_bins", "grow_lists"]


def grow_lists(*arguments: Any) -> None:
    return None


def grow_bins(*arguments: Any) -> None:
    return None
