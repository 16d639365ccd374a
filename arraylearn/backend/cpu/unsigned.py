"""Indices that are never negative: a signed one costs a test for those that count from the end."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["index", "signed"]

# Sums and differences must stay among themselves: with a signed integer they become floats.
index: Any = np.uintp
# The way back.
signed: Any = np.int64
