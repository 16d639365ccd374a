"""The harness collects garbage before each turn; what the test process holds already is not its garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _collect_only_new_objects() -> Iterator[None]:

    gc.freeze()
    yield
    gc.unfreeze()
