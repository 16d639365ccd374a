"""Compiled body of `arraylearn.backend.arrays.gather.gather_block`."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, entry

__all__ = ["gather_block"]


def gather_block(rows: Host, slots: Host, columns: Host) -> Host:
    """Do what `gather.gather_block` does."""
    block = np.empty((slots.shape[0], columns.shape[0]), dtype=rows.dtype)
    order = columns.argsort()
    _gather(np.ascontiguousarray(rows), slots.astype(np.int64), columns.take(order), order, block)
    return block


@entry
def _gather(rows: Host, slots: Host, ascending: Host, order: Host, block: Host) -> None:
    """Read each row from its beginning to its end, as memory likes it."""
    for k in range(slots.shape[0]):
        row, target = rows[slots[k]], block[k]
        for j in range(ascending.shape[0]):
            target[order[j]] = row[ascending[j]]
