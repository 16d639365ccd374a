"""The counter agrees with what was done, and with the emulated devices' own counts."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.costs import count_operations
from arraylearn.backend.namespace import HOST, Place, to_host


def test_numpy_is_not_counted():
    with count_operations(HOST) as counts:
        np.ones(3)
    assert counts is None


def test_torch_operations_bytes_and_arithmetic():
    torch = pytest.importorskip("torch")
    import array_api_compat.torch as xp

    x = torch.ones((4, 5), dtype=torch.float64)
    with count_operations(Place(xp, torch.device("cpu"))) as counts:
        y = x.T  # a view
        _ = y @ x
    assert (counts.launches, counts.syncs) == (1, 0)
    assert counts.n_bytes == 8 * (20 + 20 + 25)
    assert counts.n_flops == 25 * 2 * 4


@pytest.mark.rungs("torch", "launches")
def test_waits_are_counted(rung, xp):
    x = rung.from_host(np.arange(6, dtype="float32"))
    with count_operations(Place(xp, rung.device)) as counts:
        total = xp.sum(x * 2)
        assert counts.syncs == 0
        assert float(total) == 30.0
        assert counts.syncs == 1
    before = counts.syncs
    to_host(x)
    assert counts.syncs == before  # counting ends with the block
