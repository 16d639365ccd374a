"""What compiled growth of whole subtrees shares: room for their nodes, work for threads, the final numbers.

Nodes are found depth first and kept in slots: the children of a node side by side. A block of s rows has at
most 2 s - 2 nodes below it, so that each block has slots of its own, which threads fill without a word to
each other. Untouched slots cost no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import compiled
from arraylearn.backend.ops.subtrees import Growth, Subtrees
from arraylearn.backend.threads import get_num_threads

Host = np.ndarray[Any, Any]

__all__ = [
    "CHILD",
    "COUNTS",
    "HIGH",
    "LINE",
    "LOW",
    "STACK",
    "Nodes",
    "begin_nodes",
    "block_tasks",
    "in_level_order",
    "is_open",
    "push_children",
    "split_large",
]

# Columns of `Nodes.whole`; the classes come last.
LINE, CHILD, LOW, HIGH, COUNTS = 0, 1, 2, 3, 4
# Blocks that wait: the smaller one of two goes first, so that their sizes double.
STACK = 64
# A second thread pays from so many values on; a block of fewer is no task of its own.
_WORTH_A_THREAD = 100_000
_TASKS_PER_THREAD = 8
# Blocks that all threads may split together, before each has blocks of its own.
_MOST_TOGETHER = 64


class Nodes(NamedTuple):
    """Slots of nodes, and the blocks that are still to be split."""

    whole: Host  # (slots, 4 + c) int32
    gain: Host  # (slots,) float32
    n_top: int  # slots before those of the blocks: the given nodes, and what all threads split together
    blocks: Host  # (k, 4) int64: slot, start, stop, levels that may follow (negative: any number)


def begin_nodes(starts: Host, m: int, counts: Host, growth: Growth) -> Nodes:
    """Give the k given blocks the first k slots."""
    k, c = counts.shape
    n_top = k + 2 * _MOST_TOGETHER
    whole = np.empty((n_top + 2 * m, COUNTS + c), dtype=np.int32)
    whole[:k, :COUNTS] = -1
    whole[:k, COUNTS:] = counts
    blocks = np.empty((k, 4), dtype=np.int64)
    blocks[:, 0] = np.arange(k)
    blocks[:, 1] = starts
    blocks[:-1, 2] = starts[1:]
    blocks[-1:, 2] = m
    blocks[:, 3] = growth.n_levels
    return Nodes(whole, np.empty(n_top + 2 * m, dtype=np.float32), n_top, blocks)


def split_large(nodes: Nodes, d: int, split: Callable[[Host, int], Host]) -> tuple[Nodes, int]:
    """Split blocks that are too large for one thread; return the rest of the work and the slots taken.

    ``split(block, slot)`` splits one block with all threads, its children from `slot` on, and returns those
    of them that go on, as blocks.
    """
    n_threads, taken = get_num_threads(), nodes.n_top - 2 * _MOST_TOGETHER
    blocks = nodes.blocks
    total = int((blocks[:, 2] - blocks[:, 1]).sum())
    limit = max(_WORTH_A_THREAD // d, total // (2 * n_threads))
    while n_threads > 1 and taken + 2 <= nodes.n_top and blocks.shape[0]:
        sizes = blocks[:, 2] - blocks[:, 1]
        largest = int(sizes.argmax())
        if sizes[largest] <= limit:
            break
        children = split(blocks[largest], taken)
        taken += 2
        blocks = np.concatenate((np.delete(blocks, largest, axis=0), children))
    order = blocks[:, 1].argsort()
    return nodes._replace(blocks=blocks[order]), taken


def block_tasks(nodes: Nodes, d: int) -> list[Host]:
    """Cut the blocks into tasks of about equal numbers of rows, the largest ones first."""
    sizes = nodes.blocks[:, 2] - nodes.blocks[:, 1]
    total, n_threads = int(sizes.sum()), get_num_threads()
    if n_threads == 1 or total * d < _WORTH_A_THREAD:
        return [nodes.blocks]
    share = max(_WORTH_A_THREAD // (2 * d), total // (_TASKS_PER_THREAD * n_threads))
    number = (np.cumsum(sizes) - sizes) // share
    cuts = np.flatnonzero(np.diff(number)) + 1
    tasks = np.split(nodes.blocks, cuts)
    return sorted(tasks, key=lambda task: -int((task[:, 2] - task[:, 1]).sum()))


def in_level_order(nodes: Nodes, n_given: int) -> Subtrees:
    """Give the nodes the numbers of growth level by level."""
    n_splits = -1
    whole, gain, k = nodes.whole, nodes.gain, n_given
    capacity = 4 * k + 1024
    while n_splits < 0:
        order, first, depth = (np.empty(capacity, dtype=np.int32) for _ in range(3))
        n_splits = _number_nodes(whole, k, order, first, depth)
        capacity = min(4 * capacity, whole.shape[0] + 4)
    t = k + 2 * n_splits
    order, whole = order[:t], whole.take(order[:t], axis=0)
    fields = whole[:, LINE], gain.take(order), whole[:, LOW], whole[:, HIGH], first[:t], depth[:t]
    return Subtrees(*fields, whole[:, COUNTS:])


@compiled
def _number_nodes(whole: Host, k: int, order: Host, first: Host, depth: Host) -> int:
    """Write the slot, first child and depth of each node; return the number of splits, -1 without room."""
    n_nodes, n_splits, level = k, 0, 0
    here, after = np.empty(order.shape[0], np.int32), np.empty(order.shape[0], np.int32)
    n_here = k
    for i in range(k):
        order[i], first[i], depth[i], here[i] = i, -1, 0, i
    while n_here > 0:
        level += 1
        n_left = 0
        for i in range(n_here):
            child = whole[order[here[i]], CHILD]
            if child < 0:
                continue
            if n_nodes + 2 > order.shape[0]:
                return -1
            first[here[i]] = n_nodes
            for side in range(2):
                order[n_nodes + side], first[n_nodes + side], depth[n_nodes + side] = child + side, -1, level
            after[n_left] = n_nodes
            n_left += 1
            n_nodes += 2
            n_splits += 1
        for i in range(n_left):
            here[i], here[n_left + i] = after[i], after[i] + 1
        n_here = 2 * n_left
    return n_splits


@compiled
def is_open(counts: Host, size: int, least_to_split: int, n_levels: int) -> bool:
    """Whether a node may be split."""
    largest = 0
    for j in range(counts.shape[0]):
        largest = max(largest, counts[j])
    return largest < size and size >= least_to_split and n_levels != 0


@compiled
def push_children(
    whole: Host,
    slot: int,
    child: int,
    left: Host,
    start: int,
    middle: int,
    stop: int,
    n_levels: int,
    least_to_split: int,
    stack: Host,
    height: int,
) -> tuple[bool, bool, int]:
    """Write the children of a node to their slots and put those that may be split on the stack.

    Returns whether the left and the right one may, and the new height.
    """
    c = left.shape[0]
    for j in range(COUNTS):
        whole[child, j] = -1
        whole[child + 1, j] = -1
    for j in range(c):
        whole[child, COUNTS + j] = left[j]
        whole[child + 1, COUNTS + j] = whole[slot, COUNTS + j] - left[j]
    after = n_levels - 1 if n_levels > 0 else n_levels
    is_left = is_open(whole[child, COUNTS:], middle - start, least_to_split, after)
    is_right = is_open(whole[child + 1, COUNTS:], stop - middle, least_to_split, after)
    is_left_smaller = middle - start < stop - middle
    for turn in range(2):
        # the larger one first, so that the smaller one is taken first
        is_lower = (turn == 1) == is_left_smaller
        if is_lower and is_left:
            stack[height, 0], stack[height, 1] = child, start
            stack[height, 2], stack[height, 3] = middle, after
            height += 1
        elif not is_lower and is_right:
            stack[height, 0], stack[height, 1] = child + 1, middle
            stack[height, 2], stack[height, 3] = stop, after
            height += 1
    return is_left, is_right, height
