"""Trees grown on presorted lists, in compiled loops: every value may be a threshold.

A node has the same rows in each list, sorted by the column of that list, missing values last. A split divides
every list in place and keeps the order; a tree grows depth first, the smaller child first, so that the lists
of a node stay in the cache::

    list of column 0     | a  b  c  d  e |          | a  c | b  d  e |
    list of column 1     | c  a  e  b  d |   -->    | c  a | e  b  d |     cut after its second row
                         start          stop        start  middle    stop

Several threads first split the largest nodes together, each with some of the lists; then each thread grows
other nodes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from arraylearn.backend.cpu.jit import Host, Int, entry, index, part
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.threads import get_num_threads, parallel_map
from arraylearn.grow import formulas
from arraylearn.grow.criteria import MOST_IN_ORDER, NO_LOGS, PLAIN_GINI, Criterion, LogTable
from arraylearn.grow.criteria_cpu import describe_node
from arraylearn.grow.formulas import GINI, NO_SPLIT
from arraylearn.grow.sorted_lists.lists import SortedRows
from arraylearn.grow.sorted_lists.scan_cpu import (
    BEFORE,
    BORDERS,
    NOWHERE,
    PARTS,
    SIDE,
    STRIDE,
    ListData,
    ScanBuffers,
    Span,
    scan_borders,
)
from arraylearn.grow.sorted_lists.score_scan_cpu import scan_scores
from arraylearn.grow.trees import LEAF, Limits, Trees
from arraylearn.grow.trees_cpu import number_nodes

__all__ = ["grow_lists", "search_lists"]

# Entries of the stack: the smaller child is processed first, so that the sizes of pending nodes double.
_STACK = 64
_JOBS_PER_THREAD = 8
# The most nodes that all threads split together before each grows other nodes.
_MOST_TOGETHER = 64

# Tasks of the entry.
_SEARCH, _SPLIT, _DIVIDE, _GROW, _NUMBER = range(5)
# Columns of a job.
_NODE, _START, _STOP, _LEVELS = range(4)
# In place of the number of levels below a node.
_UNLIMITED = -1
# Columns of `_Slots.ints`.
_FEATURE, _LOW, _HIGH, _CHILD, _RIGHT = range(5)
# Columns of `_ListFound.ints`: list, last position of the known rows on the left, whether missing rows go
# left, the first position of the right child, the children that may be split: _LEFT_OPEN plus _RIGHT_OPEN.
_LIST, _POSITION, _GOES_LEFT, _MIDDLE, _OPEN = range(5)
_LEFT_OPEN, _RIGHT_OPEN = 1, 2

_pair_gain = part(formulas.pair_gain)
_surplus_gain = part(formulas.surplus_gain)
_squares_gain = part(formulas.squares_gain)


class _Slots(NamedTuple):
    """Nodes in slots: the given ones first, the others in pairs of siblings, with gaps."""

    ints: Host  # (5, s) int32
    gain: Host  # (s,) float32
    sums: Host  # (s, c) int64
    places: Host  # (5, s) int32: see `number_nodes`


class _ListFound(NamedTuple):
    """Nodes that are searched, and the best split of each."""

    jobs: Host  # (k, 4) int64: see `_NODE`
    ints: Host  # (k, 5) int64: see `_LIST`
    gain: Host  # (k,) float32
    score: Host  # (k,) float64, or NO_SPLIT
    left: Host  # (k, c) int64


# ---- the best list of a node


@part
def _count_known(rows: Host, values: Host, start: Int, stop: Int) -> Int:
    """Return the position after the last known value of a list, whose missing values come last."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if np.isnan(values[rows[middle]]):
            high = middle
        else:
            low = middle + 1
    return low


@part
def _search(
    data: ListData,
    job: Int,
    slots: _Slots,
    found: _ListFound,
    buffers: ScanBuffers,
    logs: LogTable | None,
    borders: Host | None,
) -> None:
    """Find the best split of a job; the gains of lists are compared in float32."""
    jobs = found.jobs
    node, start, stop = jobs[job, _NODE], jobs[job, _START], jobs[job, _STOP]
    counts, sums = slots.sums[node], buffers.sums
    n_classes, is_weighted = counts.shape[0], data.weights.shape[0] > 0
    total, squares = np.int64(0), np.int64(0)
    for k in range(n_classes):
        total += counts[k]
        squares += counts[k] * counts[k]
        sums[BEFORE, k] = 0
    size = float(total)
    if logs is not None:
        terms = describe_node(data.criterion, logs, counts)
    feature, position, goes_left, gain, score = 0, start, 0, np.float32(-np.inf), NO_SPLIT
    for f in range(data.first, data.end):
        if data.allowed.shape[0] > 0 and not data.allowed[f, job]:
            continue
        rows, values = data.lists[f], data.columns[f]
        known = _count_known(rows, values, start, stop) if data.has_missing else stop
        # lists after the first must exceed the best score so far
        top, place, side = score, NOWHERE, 0
        for turn in range(2 if known < stop else 1):  # with missing rows on the right, then on the left
            if turn == 1:
                for i in range(index(known), index(stop)):
                    row = rows[i]
                    own = np.int64(0)
                    if data.class_of.shape[0] > 0:
                        own = np.int64(data.class_of[row])
                    else:
                        for k in range(n_classes - 1):
                            own += row >= data.borders[k]
                    sums[BEFORE, own] += data.weights[row] if is_weighted else 1
            span = Span(start, known, total, data.least, turn == 0 and known < stop, top)
            if logs is not None:
                reached, at = scan_scores(rows, values, data, span, counts, terms, buffers)
            if borders is not None:
                reached, at = scan_borders(rows, values, borders, data.weights, span, counts, buffers)
            if at != NOWHERE:
                top, place, side = reached, at, turn
        if known < stop:
            for k in range(n_classes):
                sums[BEFORE, k] = 0
        if place == NOWHERE:
            continue
        reached = top
        if borders is not None:
            reached = _pair_gain(top, size) if n_classes == 2 else _surplus_gain(top, size)
        elif data.criterion == GINI:
            reached = _squares_gain(top, float(squares), size)
        gained = np.float32(reached if reached > 0.0 else 0.0)
        if gained > gain:
            feature, position, goes_left, gain, score = f, place, side, gained, top
            n_left, n_right = 0, 0
            for k in range(n_classes):
                found.left[job, k] = sums[SIDE, k]
                n_left += sums[SIDE, k] > 0
                n_right += counts[k] > sums[SIDE, k]
            if n_left <= 1 and n_right <= 1:
                break  # both sides hold one class: other lists are at most as good
    ints = found.ints
    ints[job, _LIST], ints[job, _POSITION], ints[job, _GOES_LEFT] = feature, position, goes_left
    found.gain[job], found.score[job] = gain, score


# ---- the children


@part
def _split(
    data: ListData, job: Int, child: Int, slots: _Slots, found: _ListFound, buffers: ScanBuffers
) -> None:
    """Write the split of a job and its children, and mark the rows that go right."""
    jobs = found.jobs
    node, start, stop, levels = jobs[job, _NODE], jobs[job, _START], jobs[job, _STOP], jobs[job, _LEVELS]
    feature, position = found.ints[job, _LIST], found.ints[job, _POSITION]
    rows, values, ints, sums = data.lists[feature], data.columns[feature], slots.ints, slots.sums
    known = _count_known(rows, values, start, stop) if data.has_missing else stop
    goes_left = found.ints[job, _GOES_LEFT] > 0
    n_left, n_right, top_left, top_right = 0, 0, 0, 0
    for k in range(sums.shape[1]):
        left, right = found.left[job, k], sums[node, k] - found.left[job, k]
        sums[child, k], sums[child + 1, k] = left, right
        n_left, n_right = n_left + left, n_right + right
        top_left, top_right = max(top_left, left), max(top_right, right)
    for k in range(_RIGHT + 1):
        ints[k, child] = LEAF
        ints[k, child + 1] = LEAF
    ints[_FEATURE, node], ints[_CHILD, node] = feature, child
    ints[_LOW, node], ints[_HIGH, node] = rows[position], rows[position + 1]
    # if no value is missing, those met in prediction go to the heavier side
    ints[_RIGHT, node] = (0 if goes_left else 1) if known < stop else (1 if n_right > n_left else 0)
    slots.gain[node] = found.gain[job]
    is_deep = levels == 1
    opens = _LEFT_OPEN if top_left < n_left and n_left >= data.least_to_split and not is_deep else 0
    opens += _RIGHT_OPEN if top_right < n_right and n_right >= data.least_to_split and not is_deep else 0
    found.ints[job, _MIDDLE] = position + 1 + (stop - known if goes_left else 0)
    found.ints[job, _OPEN] = opens
    if opens > 0:
        is_right = buffers.is_right
        for i in range(index(start), index(position + 1)):
            is_right[rows[i]] = 0
        for i in range(index(position + 1), index(known)):
            is_right[rows[i]] = 1
        for i in range(index(known), index(stop)):
            is_right[rows[i]] = 0 if goes_left else 1


@part
def _divide(data: ListData, job: Int, found: _ListFound, buffers: ScanBuffers) -> None:
    """Put the left rows of each list before the right ones; the rows of a side that stays a leaf are lost."""
    is_right, spare, ints, jobs = buffers.is_right, buffers.spare, found.ints, found.jobs
    one, first, end = index(1), index(jobs[job, _START]), index(jobs[job, _STOP])
    middle, opens = index(ints[job, _MIDDLE]), ints[job, _OPEN]
    for f in range(data.first, data.end):
        if f == ints[job, _LIST] and ints[job, _GOES_LEFT] == 0:
            continue  # the list that was cut is divided already
        rows = data.lists[f]
        if opens == _LEFT_OPEN + _RIGHT_OPEN:
            at, put = first, index(0)
            for i in range(first, end):
                row = rows[i]
                right = index(is_right[row])
                rows[at] = row
                spare[put] = row
                at += one - right
                put += right
            for i in range(end - middle):
                rows[middle + i] = spare[i]
        elif opens == _LEFT_OPEN:
            at, i = first, first
            while at < middle:
                row = rows[i]
                rows[at] = row
                at += one - index(is_right[row])
                i += one
        else:
            # from the end; positions are counted from 1, because unsigned numbers cannot go below 0
            at, i = end, end
            while at > middle:
                row = rows[i - one]
                rows[at - one] = row
                at -= index(is_right[row])
                i -= one


@part
def _push(job: Int, child: Int, found: _ListFound, stack: Host, height: Int) -> Int:
    """Put the children of a job that may be split on the stack, the smaller one on top; return its height."""
    jobs, ints = found.jobs, found.ints
    start, stop, levels = jobs[job, _START], jobs[job, _STOP], jobs[job, _LEVELS]
    middle, opens = ints[job, _MIDDLE], ints[job, _OPEN]
    is_left_smaller = middle - start < stop - middle
    for turn in range(2):
        is_left = (turn == 1) == is_left_smaller
        if opens & (_LEFT_OPEN if is_left else _RIGHT_OPEN):
            stack[height, _NODE] = child if is_left else child + 1
            stack[height, _START] = start if is_left else middle
            stack[height, _STOP] = middle if is_left else stop
            stack[height, _LEVELS] = levels - 1 if levels > 0 else levels
            height += 1
    return height


@entry
def _run(
    data: ListData,
    roots: Host,
    slots: _Slots,
    found: _ListFound,
    buffers: ScanBuffers,
    logs: LogTable | None,
    borders: Host | None,
) -> Int:
    """Do the task `data.task`; see `_SEARCH`.

    _SEARCH searches all jobs of `found`; _SPLIT and _DIVIDE split or divide the first one; _GROW grows the
    subtrees below `roots`, with the stack as jobs; _NUMBER numbers the nodes of `data.child` roots. New nodes
    are written from slot `data.child` on, those below a grown root from ``data.child + 2 * start`` on.
    Children that may be split are left on the stack, whose height is returned. One of `logs` and `borders` is
    not None and determines how lists are scanned: Numba leaves out the code of the other.
    """
    # each part is called in one place only: it is compiled for each place that calls it
    task, stack, height, is_growing = data.task, buffers.stack, 0, data.task == _GROW
    for b in range(0 if task == _NUMBER else (roots if is_growing else found.jobs).shape[0]):
        free, height = data.child + (2 * roots[b, _START] if is_growing else 0), 1
        for k in range(4 if is_growing else 0):  # assigning the row at once would take seconds to compile
            stack[0, k] = roots[b, k]
        while height > 0:
            height -= 1
            at = height if is_growing else b
            if is_growing or task == _SEARCH:
                _search(data, at, slots, found, buffers, logs, borders)
                if found.score[at] == NO_SPLIT or found.gain[at] < data.min_gain or not is_growing:
                    continue
            if task != _DIVIDE:
                _split(data, at, free, slots, found, buffers)
            if task != _SPLIT and found.ints[at, _OPEN] > 0:
                _divide(data, at, found, buffers)
            if task == _DIVIDE:
                continue
            height = _push(at, free, found, stack, height)
            free += 2
            if task == _SPLIT:
                break
    return number_nodes(data.child, slots.ints[_CHILD], slots.places) if task == _NUMBER else height


# ---- threads


def _do(
    task: int,
    child: int,
    data: ListData,
    slots: _Slots,
    found: _ListFound,
    buffers: ScanBuffers,
    roots: Host | None = None,
) -> int:
    """Run a task; see `_run`."""
    given = data._replace(task=task, child=child), found.jobs if roots is None else roots, slots, found
    return int(_run(*given, buffers, data.logs, data.borders if data.logs is None else None))


def _as_arrays(
    rows: SortedRows, criterion: Criterion, limits: Limits, allowed: Host | None = None
) -> ListData:
    ends, c = rows.class_ends, len(rows.class_ends)
    borders = np.full(BORDERS, ends[-1], dtype=np.uint32)
    borders[: c - 1] = ends[: min(c - 1, BORDERS)]
    class_of: Host = np.empty(0, dtype=np.int32)
    logs = criterion.logs
    if c > MOST_IN_ORDER or criterion.number != GINI:
        class_of = np.arange(c, dtype=np.uint8 if c <= 256 else np.int32).repeat(np.diff(ends, prepend=0))
        logs = NO_LOGS if logs is None else logs
    return ListData(
        lists=np.ascontiguousarray(rows.lists).view(np.uint32),
        columns=np.ascontiguousarray(rows.columns),
        borders=borders,
        class_of=class_of,
        weights=np.empty(0, dtype=np.int64) if rows.weights is None else np.ascontiguousarray(rows.weights),
        has_missing=rows.has_missing,
        allowed=np.ones((0, 0), dtype=np.bool_) if allowed is None else np.ascontiguousarray(allowed),
        criterion=criterion.number,
        logs=logs,
        first=0,
        end=rows.lists.shape[0],
        least=max(1, int(limits.min_samples_leaf)),
        least_to_split=int(limits.min_samples_split),
        min_gain=limits.min_gain - 1e-12,
        task=_SEARCH,
        child=0,
    )


def grow_lists(rows: SortedRows, starts: Host, counts: Host, limits: Limits, criterion: Criterion) -> Trees:
    """Grow the subtrees below some nodes.

    Parameters
    ----------
    rows : SortedRows
        Its lists are overwritten. The side of missing values is learned.
    starts : int64 array (k,)
        Where the rows of each node begin in the lists, which have no other rows.
    counts : int64 array (k, c)
        Class weights of the nodes.
    limits : Limits
        Limits of growth; they are not applied to the given nodes. A node of one class is not split.
    criterion : Criterion
        By which splits are scored.

    Returns
    -------
    Trees
        k trees level by level: all roots, the children of all roots, and so on. `threshold` and `high` are
        the rows on both sides of a cut.
    """
    data = _as_arrays(rows, criterion, limits)
    (d, m), (k, c) = data.lists.shape, counts.shape
    n_top = k + 2 * _MOST_TOGETHER
    slots = _Slots(
        np.empty((_RIGHT + 1, n_top + 2 * m), dtype=np.int32),
        np.empty(n_top + 2 * m, dtype=np.float32),
        np.empty((n_top + 2 * m, c), dtype=np.int64),
        np.empty((5, n_top + 2 * m), dtype=np.int32),
    )
    slots.ints[:, :k], slots.sums[:k] = LEAF, counts
    jobs = _jobs(starts, m, _UNLIMITED if limits.max_depth is None else limits.max_depth)
    jobs = _split_large(data, jobs, slots, n_top)

    def grow(some: Host) -> None:
        largest = int((some[:, _STOP] - some[:, _START]).max())
        buffers = _make_buffers(data, c, largest)
        _do(_GROW, n_top, data, slots, _make_found(buffers.stack, c), buffers, some)

    parallel_map(grow, _share(jobs, d))
    n_nodes = _do(_NUMBER, k, data, slots, _make_found(jobs[:0], c), _make_buffers(data, c, 0))
    where, first, depth = slots.places[:3, :n_nodes].copy()
    feature, low, high, _, right = slots.ints.take(where, axis=1)
    return Trees(
        roots=np.arange(k),
        feature=feature,
        threshold=low,
        high=high,
        first_child=first,
        depth=depth,
        gain=slots.gain.take(where),
        sums=slots.sums.take(where, axis=0),
        default_branch=right > 0 if data.has_missing else None,
    )


def search_lists(
    rows: SortedRows, starts: Host, counts: Host, least: int, allowed: Host | None
) -> tuple[Host, Host, Host, Host]:
    """Find the best split of each node: the fields of `ListSplits`."""
    data = _as_arrays(rows, PLAIN_GINI, Limits(min_samples_leaf=least), allowed)
    counts, jobs = np.ascontiguousarray(counts), _jobs(starts, rows.lists.shape[1], _UNLIMITED)
    none = np.empty((_RIGHT + 1, 0), np.int32)
    slots = _Slots(none, np.empty(0, np.float32), counts, none)
    found = _search_together(data, jobs, slots)
    if allowed is not None and (is_none := found.score == NO_SPLIT).any():
        # nodes without a split in the allowed lists may use all
        found = _search_together(data._replace(allowed=data.allowed | is_none), jobs, slots)
    return found.ints[:, _LIST], found.score, found.ints[:, _POSITION], found.left


def _jobs(starts: Host, m: int, n_levels: int) -> Host:
    k = starts.shape[0]
    jobs = np.empty((k, 4), dtype=np.int64)
    jobs[:, _NODE], jobs[:, _START], jobs[:, _LEVELS] = np.arange(k), starts, n_levels
    jobs[:-1, _STOP], jobs[-1:, _STOP] = starts[1:], m
    return jobs


def _make_buffers(data: ListData, n_classes: int, largest: int) -> ScanBuffers:
    """Make the buffers of a thread that divides nodes of up to `largest` rows; 0: it only searches."""
    return ScanBuffers(
        np.empty((_STACK, 4), dtype=np.int64),
        np.empty(data.columns.shape[1] if largest else 0, dtype=np.uint8),
        np.empty(largest + 1, dtype=np.uint32),
        np.zeros((BORDERS + 3, max(STRIDE, n_classes + 1))),
        np.empty(STRIDE, dtype=np.int64),
        np.empty((3, STRIDE + 1), dtype=np.int64),
        np.empty((PARTS + 1, n_classes), dtype=np.int64),
    )


def _make_found(jobs: Host, n_classes: int) -> _ListFound:
    k = jobs.shape[0]
    ints, left = np.zeros((k, _OPEN + 1), dtype=np.int64), np.zeros((k, n_classes), dtype=np.int64)
    return _ListFound(jobs, ints, np.empty(k, dtype=np.float32), np.empty(k), left)


def _groups(data: ListData, m: int) -> list[ListData]:
    """Cut the lists into groups, one for each thread that is worth starting."""
    d = data.end
    n_groups = min(d, get_num_threads()) if d * m >= get_tuning().list_thread_values else 1
    bounds = [round(d * g / n_groups) for g in range(n_groups + 1)]
    return [data._replace(first=first, end=end) for first, end in pairwise(bounds)]


def _search_together(data: ListData, jobs: Host, slots: _Slots) -> _ListFound:
    """Search each job with all threads, some lists each."""
    k, c = jobs.shape[0], slots.sums.shape[1]

    def search(part_of: ListData) -> _ListFound:
        found = _make_found(jobs, c)
        _do(_SEARCH, 0, part_of, slots, found, _make_buffers(data, c, 0))
        return found

    parts = parallel_map(search, _groups(data, int((jobs[:, _STOP] - jobs[:, _START]).sum())))
    if len(parts) == 1:
        return parts[0]
    best = np.stack([found.gain for found in parts]).argmax(axis=0)  # the first list among equals
    return _ListFound(*(np.stack(field)[best, np.arange(k)] for field in zip(*parts, strict=True)))


def _split_large(data: ListData, jobs: Host, slots: _Slots, n_top: int) -> Host:
    """Split nodes that are too large for one thread; return the jobs still to be grown, by position."""
    n_threads, child, (d, m) = get_num_threads(), n_top - 2 * _MOST_TOGETHER, data.lists.shape
    limit = max(get_tuning().list_thread_values // d, m // (2 * n_threads))
    while n_threads > 1 and child + 2 <= n_top and jobs.shape[0]:
        sizes = jobs[:, _STOP] - jobs[:, _START]
        largest = int(sizes.argmax())
        if sizes[largest] <= limit:
            break
        job, jobs = jobs[largest : largest + 1], np.delete(jobs, largest, axis=0)
        found = _search_together(data, job, slots)
        if found.score[0] == NO_SPLIT or found.gain[0] < data.min_gain:
            continue
        buffers = _make_buffers(data, slots.sums.shape[1], int(sizes[largest]))
        n_open = _do(_SPLIT, child, data, slots, found, buffers)
        child += 2

        def divide(part_of: ListData, found: _ListFound = found, shared: ScanBuffers = buffers) -> None:
            _do(_DIVIDE, 0, part_of, slots, found, shared._replace(spare=np.empty_like(shared.spare)))

        if n_open:
            parallel_map(divide, _groups(data, int(sizes[largest])))
            jobs = np.concatenate((jobs, buffers.stack[:n_open]))
    return jobs[jobs[:, _START].argsort()]


def _share(jobs: Host, d: int) -> list[Host]:
    """Cut the jobs into shares of about equal numbers of rows, the largest ones first."""
    sizes = jobs[:, _STOP] - jobs[:, _START]
    total, n_threads = int(sizes.sum()), get_num_threads()
    if total == 0:
        return []
    if n_threads == 1 or total * d < get_tuning().list_thread_values:
        return [jobs]
    share = max(get_tuning().list_thread_values // (2 * d), total // (_JOBS_PER_THREAD * n_threads))
    number = (np.cumsum(sizes) - sizes) // share
    shares = np.split(jobs, np.flatnonzero(np.diff(number)) + 1)
    return sorted(shares, key=lambda some: -int((some[:, _STOP] - some[:, _START]).sum()))
