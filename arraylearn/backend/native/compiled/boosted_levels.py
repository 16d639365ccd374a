"""Boosted trees in compiled loops: a thread leads from level to level, others assist."""

from __future__ import annotations

import numpy as np

from arraylearn.backend.cpu.jit import Host, Whole, compiled, compiled_part
from arraylearn.backend.native.compiled.boosted_jobs import do_job, pair_up
from arraylearn.backend.native.compiled.boosted_room import (
    AT,
    FOUND,
    GAIN,
    JOB,
    KIND,
    LEAST_ROWS,
    NODE,
    PAIR,
    REAL,
    Room,
    Rows,
    Search,
)
from arraylearn.backend.native.compiled.team import (
    finish_job,
    is_dismissed,
    post_jobs,
    rest,
    take_job,
    wait_for_jobs,
)

__all__ = ["work"]

# A level of so many nodes for each thread is shared node by node, without cutting them into parts.
_FEW = 4


@compiled
def work(rows: Rows, search: Search, room: Room, desk: Host, n_threads: int, is_leader: bool) -> bool:
    """Lead the growth of a tree, or assist whoever does.

    One function for both, since the compiler takes seconds for the jobs of each that calls them. A leader
    begins the tree that `room.at` names, or goes on with it, and returns whether it is complete: a level may
    need more room. An assistant returns when dismissed.
    """
    scores = np.empty(room.tables.shape[3], dtype=np.float32)
    keys = scores.view(np.int32)
    n_jobs = _begin(rows, room, n_threads) if is_leader else 0
    looks = 0
    while True:
        if is_leader:
            post_jobs(desk, n_jobs)
        job = take_job(desk)
        while job >= 0:
            do_job(rows, search, room, job, scores, keys)
            finish_job(desk)
            job = take_job(desk)
        if is_leader:
            wait_for_jobs(desk, n_jobs)
            n_jobs = _prepare_next(search, room, n_threads)
            if n_jobs <= 0:
                return bool(n_jobs == 0)
        elif is_dismissed(desk):
            return True
        else:
            looks = rest(looks)


@compiled_part
def _begin(rows: Rows, room: Room, n_threads: int) -> Whole:
    """Write the jobs that sum up the rows of a new tree; return their number."""
    at = room.at
    if at[AT.N_NODES] > 0:  # a tree that waited for more room
        return 0
    at[AT.N_NODES], at[AT.STAGE] = 1, KIND.SUM
    _clear_node(room, 0, -1)
    room.whole[NODE.START, 0], room.whole[NODE.SIZE, 0] = 0, rows.order.shape[0]
    # a pair with one sibling only
    room.pairs[PAIR.SMALL, 0], room.pairs[PAIR.LARGE, 0] = 0, -1
    at[AT.N_PAIRS], at[AT.N_PARTED], room.level[0, 0] = 1, 1, 0
    return _post_sums(room, n_threads)


@compiled_part
def _prepare_next(search: Search, room: Room, n_threads: int) -> Whole:
    """Write the jobs that follow; return their number, 0 when the tree is complete, -1 if room is wanting."""
    at = room.at
    if at[AT.STAGE] == KIND.SORT and at[AT.N_PARTED] > 0:
        _post_places(room)
        at[AT.STAGE] = KIND.PLACE
        return at[AT.N_PARTED]
    if at[AT.STAGE] == KIND.PLACE:
        at[AT.N_PARTED] = _keep_pairs(room, search.limits)
        if at[AT.N_PARTED] > 0:
            at[AT.STAGE] = KIND.SUM
            return _post_sums(room, n_threads)
    elif at[AT.STAGE] == KIND.SUM:
        for job in range(at[AT.N_PARTED]):
            room.jobs[JOB.KIND, job], room.jobs[JOB.PAIR, job] = KIND.SEARCH, room.level[0, job]
        at[AT.STAGE] = KIND.SEARCH
        return at[AT.N_PARTED]
    if at[AT.STAGE] != KIND.WHOLE:
        _list_level(room)
        at[AT.STAGE] = KIND.WHOLE
    is_last = at[AT.DEPTH] + 1 == search.max_depth
    n_children = 2 * at[AT.WIDTH]
    if n_children == 0 or at[AT.DEPTH] == search.max_depth:
        return 0
    if at[AT.N_NODES] + n_children > room.whole.shape[1]:
        return -1
    if not is_last and n_children > room.tables.shape[1]:
        return -1
    _split_nodes(room)
    at[AT.DEPTH] += 1
    at[AT.STAGE] = KIND.SORT
    return 0 if is_last else _post_pairs(room, n_threads)


@compiled_part
def _split_nodes(room: Room) -> None:
    """Split the nodes of a level."""
    whole, real, n = room.whole, room.real, room.at[AT.N_NODES]
    for pair in range(room.at[AT.WIDTH]):
        node, table = room.level[0, pair], room.level[1, pair]
        found, gains = room.found[table], room.gains[table]
        _clear_node(room, n, node)
        _clear_node(room, n + 1, node)
        whole[NODE.FEATURE, node], whole[NODE.THRESHOLD, node] = found[FOUND.FEATURE], found[FOUND.THRESHOLD]
        whole[NODE.IS_MISSING_RIGHT, node], whole[NODE.LEFT, node] = found[FOUND.IS_MISSING_RIGHT], n
        real[REAL.GAIN, node] = gains[GAIN.GAIN]
        real[REAL.VALUE, n], real[REAL.HESSIAN, n] = gains[GAIN.LEFT_VALUE], gains[GAIN.LEFT_HESSIAN]
        real[REAL.VALUE, n + 1], real[REAL.HESSIAN, n + 1] = (
            gains[GAIN.RIGHT_VALUE],
            gains[GAIN.RIGHT_HESSIAN],
        )
        room.pairs[PAIR.LEFT_CHILD, pair], room.pairs[PAIR.PARENT_TABLE, pair] = n, table
        n += 2
    room.at[AT.N_NODES], room.at[AT.N_PAIRS] = n, room.at[AT.WIDTH]


@compiled_part
def _clear_node(room: Room, node: int, parent: int) -> None:
    for line in range(room.whole.shape[0]):
        room.whole[line, node] = -1
    for line in range(room.real.shape[0]):
        room.real[line, node] = 0.0
    room.whole[NODE.PARENT, node] = parent


@compiled_part
def _post_pairs(room: Room, n_threads: int) -> int:
    """Write a job for each new pair of siblings, or several if their parent is large: these come first."""
    n_jobs = 0
    for is_parted in (True, False):
        for pair in range(room.at[AT.N_PAIRS]):
            parent = room.whole[NODE.PARENT, room.pairs[PAIR.LEFT_CHILD, pair]]
            is_large = room.whole[NODE.SIZE, parent] * _FEW * n_threads > room.whole[NODE.SIZE, 0]
            n_parts = _n_parts(room, parent, n_threads) if is_large else 1
            if is_parted and n_parts > 1:
                n_jobs = _post_parts(room, n_jobs, KIND.SORT, pair, parent, n_parts)
            elif not is_parted and n_parts == 1:
                room.jobs[JOB.KIND, n_jobs], room.jobs[JOB.PAIR, n_jobs] = KIND.WHOLE, pair
                n_jobs += 1
        if is_parted:
            room.at[AT.N_PARTED] = n_jobs
    return n_jobs


@compiled_part
def _n_parts(room: Room, node: int, n_threads: int) -> Whole:
    return max(1, min(n_threads, room.whole[NODE.SIZE, node] // LEAST_ROWS))


@compiled_part
def _post_parts(room: Room, n_jobs: int, kind: int, pair: int, node: int, n_parts: int) -> int:
    """Write a job for each part of the rows of a node; return the number of jobs then."""
    start, size = room.whole[NODE.START, node], room.whole[NODE.SIZE, node]
    for i in range(n_parts):
        room.jobs[JOB.KIND, n_jobs + i], room.jobs[JOB.PAIR, n_jobs + i] = kind, pair
        room.jobs[JOB.FIRST, n_jobs + i] = start + size * i // n_parts
        room.jobs[JOB.LAST, n_jobs + i] = start + size * (i + 1) // n_parts
    return n_jobs + n_parts


@compiled_part
def _post_places(room: Room) -> None:
    """Make jobs that put rows in place of those that laid them aside, and write down where children begin."""
    whole, place = room.whole, 0
    for job in range(room.at[AT.N_PARTED]):
        child = room.pairs[PAIR.LEFT_CHILD, room.jobs[JOB.PAIR, job]]
        node = whole[NODE.PARENT, child]
        start, end = whole[NODE.START, node], whole[NODE.START, node] + whole[NODE.SIZE, node]
        if room.jobs[JOB.FIRST, job] == start:
            place = start
        room.jobs[JOB.KIND, job], room.jobs[JOB.PLACE, job] = KIND.PLACE, place
        place += room.jobs[JOB.N_LEFT, job]
        if room.jobs[JOB.LAST, job] == end:
            whole[NODE.START, child], whole[NODE.SIZE, child] = start, place - start
            whole[NODE.START, child + 1], whole[NODE.SIZE, child + 1] = place, end - place


@compiled_part
def _keep_pairs(room: Room, limits: Host) -> int:
    """List, where the nodes of a level were, the pairs in parts that may be split further."""
    n, last = 0, -1
    for job in range(room.at[AT.N_PARTED]):
        pair = room.jobs[JOB.PAIR, job]
        if pair != last:
            pair_up(room, limits, pair)
            if room.pairs[PAIR.SMALL, pair] >= 0:
                room.level[0, n] = pair
                n += 1
        last = pair
    return n


@compiled_part
def _post_sums(room: Room, n_threads: int) -> int:
    """Write the jobs that sum up the smaller siblings of the pairs that `_keep_pairs` lists."""
    n_jobs = n_spare = 0
    for i in range(room.at[AT.N_PARTED]):
        pair = room.level[0, i]
        node = room.pairs[PAIR.SMALL, pair]
        n_parts = _n_parts(room, node, n_threads)
        room.pairs[PAIR.SPARE, pair], room.pairs[PAIR.N_SPARE, pair] = n_spare, n_parts - 1
        room.jobs[JOB.PLACE, n_jobs] = -1
        for part in range(1, n_parts):
            room.jobs[JOB.PLACE, n_jobs + part] = n_spare + part - 1
        n_jobs = _post_parts(room, n_jobs, KIND.SUM, pair, node, n_parts)
        n_spare += n_parts - 1
    return n_jobs


@compiled_part
def _list_level(room: Room) -> None:
    """List the nodes that are worth to be split, smaller siblings first."""
    n = 0
    for side in range(2):
        for pair in range(room.at[AT.N_PAIRS]):
            node = room.pairs[PAIR.SMALL + side, pair]
            if node >= 0 and room.found[2 * pair + side, FOUND.IS_GOOD] > 0:
                room.level[0, n], room.level[1, n] = node, 2 * pair + side
                n += 1
    room.at[AT.WIDTH] = n
