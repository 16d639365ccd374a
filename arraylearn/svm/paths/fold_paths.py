"""Support vector classifiers on all folds, prices C and pairs of classes, from one kernel matrix."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arraylearn._typing import Array, HostArray
from arraylearn.backend.dispatch import get_tuning
from arraylearn.backend.memory import get_memory_budget, row_chunks, scratch
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, is_on_host, read_flags, to_host
from arraylearn.backend.threads import parallel_blocks
from arraylearn.estimator import Batch
from arraylearn.folds import Answers, Candidate, Fold, LabelledRows, group_alike, set_candidate
from arraylearn.kernels import Custom, Kernel, Linear, Precomputed, as_kernel, resolve_gamma
from arraylearn.svm.machine import list_pairs, score_pairs
from arraylearn.svm.paths.operator_splitting import solve_columns
from arraylearn.svm.paths.rising_prices import Path, Point, follow_path, follow_together
from arraylearn.svm.paths.shared_matrix import SharedMatrix
from arraylearn.svm.solvers.dense import choose_body
from arraylearn.svm.solvers.dual import NO_LIMIT, Settings
from arraylearn.svm.solvers.stages import is_compiled_batch
from arraylearn.svm.tasks import Task, make_tasks

__all__ = ["judge_svc_folds"]

_log = logging.getLogger("arraylearn.svm")


# Above this many tolerances a price (on a kernel of mean diagonal 1) needs kernel values in float64.
_LARGE_PRICE = 1e6
_BATCH_ARRAYS = 20  # arrays of the size of a batch's multipliers that solving it takes
_STRIP = 256  # rows of the kernel matrix that are made at a time
_WORTH_A_THREAD = 800  # with fewer rows the interpreter lock leaves nothing to gain from threads


class Group(NamedTuple):
    """Candidates that differ in C alone."""

    model: Any  # an SVC with C = 1 that has read the sample
    batch: Batch
    members: list[int]  # ascending in C
    prices: list[float]  # their values of C


def judge_svc_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: LabelledRows, folds: Sequence[Fold]
) -> Iterator[tuple[int, int, Answers]]:
    """Yield the answers of every candidate on every fold that can share a kernel matrix.

    One matrix of all rows serves all folds (``gamma="scale"`` makes one of its own for each), all prices and
    all pairs of classes: rows that take no part have bound 0, and the product of the matrix with the
    multipliers is the decision values of the test rows too. Left to the loop: the linear kernel, whose
    solver needs no matrix, hard margins, kernels given as functions or matrices, probabilities, many small
    pairs of classes, and what does not fit the memory.
    """
    for group in _open_groups(estimator, candidates, sample):
        usable = [f for f, fold in enumerate(folds) if _knows_all_classes(sample, fold)]
        is_along = is_on_host(group.batch.place) and not _is_tiny(group, sample)
        judge = _judge_along if is_along else _judge_at_once
        for kernel, some in _by_kernel(group, folds, usable):
            yield from judge(group, sample, folds, some, _gram(group, kernel))


def _is_tiny(group: Group, sample: LabelledRows) -> bool:
    """Whether there are so few rows that all problems at once are faster than one path each, not compiled."""
    if not isinstance(choose_body(group.batch.place.xp, 2 * sample.n_rows**2), str):
        return False
    has_all_rows = sample.labels.classes.shape[0] == 2 or group.model.multiclass == "ovr"
    return has_all_rows and sample.n_rows <= get_tuning().svm_splitting_rows


# ---- which candidates share what


def _open_groups(estimator: Any, candidates: Sequence[Candidate], sample: LabelledRows) -> Iterator[Group]:
    """Group the candidates by all but C, and read the sample for each group."""
    models = [set_candidate(estimator, candidate) for candidate in candidates]
    eligible = [c for c, model in enumerate(models) if _is_eligible(model, sample)]
    for positions in group_alike([models[c] for c in eligible], {"C"}):
        members = sorted((eligible[i] for i in positions), key=lambda c: float(models[c].C))
        model = models[members[0]]
        prices = [float(models[c].C) for c in members]
        try:
            model.set_params(C=1.0)._check_parameters()
            batch, _ = model._open_fit(sample.X, sample.y)
        except (TypeError, ValueError):
            continue
        group = Group(model, batch, members, prices)
        if any(read_flags(batch.place, batch.is_bad)) or _has_small_pairs(group, sample):
            continue
        if _fits_memory(group, sample):
            yield group


def _is_eligible(model: Any, sample: LabelledRows) -> bool:
    """Whether an SVC can share a kernel matrix with others."""
    is_plain = not model.warm_start and not model.probability and model.max_iter == NO_LIMIT
    is_plain = is_plain and not (model.break_ties and model.decision_function_shape == "ovo")  # it raises
    if not is_plain or not isinstance(model.C, int | float) or not 0 < model.C < math.inf:
        return False
    if not isinstance(model.kernel, str | Kernel) or isinstance(model.kernel, Linear | Precomputed | Custom):
        return False
    return model.kernel not in ("linear", "precomputed")


def _has_small_pairs(group: Group, sample: LabelledRows) -> bool:
    """Whether there are pairs of so few rows that they are faster one by one, as they are not compiled."""
    n, k = sample.n_rows, sample.labels.classes.shape[0]
    if k == 2 or group.model.multiclass == "ovr" or 2 * n >= k * get_tuning().svm_path_rows:
        return False
    return isinstance(choose_body(group.batch.place.xp, 2 * n**2), str)


def _fits_memory(group: Group, sample: LabelledRows) -> bool:
    """Whether the matrix and what is made of it fit the memory budget; if not, warn: the loop is slower."""
    n, k = sample.n_rows, sample.labels.classes.shape[0]
    if is_on_host(group.batch.place):
        # the matrix, and its parts between pairs of classes, and as much again for rows in float64
        cells = (4.0 if k > 2 and group.model.multiclass == "ovo" else 2.0) * n**2
        needed = cells * (4 if _is_narrow(group) else 8)
    else:
        needed = 28.0 * n**2  # and in float64 its inverse, and scratch to compute it
    budget = get_memory_budget()
    if needed > budget:
        _log.warning(
            "the SVC search fits one candidate at a time: a shared kernel matrix of %d rows takes %.1f GiB, "
            "the memory budget is %.1f GiB. set_memory_budget('%.0fGB') would allow it.",
            n, needed / 2**30, budget / 2**30, math.ceil(needed / 2**30),
        )  # fmt: skip
    return needed <= budget


def _knows_all_classes(sample: LabelledRows, fold: Fold) -> bool:
    codes = sample.labels.codes.take(fold.train)
    weight = sample.sample_weight
    if weight is not None:
        codes = codes[weight.take(fold.train) > 0]
    k = sample.labels.classes.shape[0]
    return k >= 2 and all(bool((codes == c).any()) for c in range(k))


# ---- what they share


def _by_kernel(group: Group, folds: Sequence[Fold], usable: list[int]) -> list[tuple[Kernel, list[int]]]:
    """Group the folds that share a kernel."""
    kernels: list[tuple[Kernel, list[int]]] = []
    for f in usable:
        kernel = _kernel_of(group, folds[f])
        if kernels and kernels[-1][0] == kernel:
            kernels[-1][1].append(f)
        else:
            kernels.append((kernel, [f]))
    return kernels


def _kernel_of(group: Group, fold: Fold) -> Kernel:
    """Return the kernel that the training rows of a fold make."""
    model, place = group.model, group.batch.place
    x, gamma = group.batch.table.numeric, model.gamma
    if gamma == "scale":
        rows = place.xp.take(x, from_host(fold.train, place, place.xp.int64), axis=0)
        gamma = resolve_gamma(place.xp, rows, gamma)
    else:
        gamma = resolve_gamma(place.xp, x, gamma)
    return as_kernel(model.kernel, gamma=float(gamma), degree=model.degree, coef0=model.coef0)


def _is_narrow(group: Group, level: float = 1.0) -> bool:
    """Whether float32 is exact enough for the prices, on a kernel of this mean diagonal."""
    return bool(group.prices[-1] * level < _LARGE_PRICE * group.model.tol)


def _gram(group: Group, kernel: Kernel) -> Array:
    """Compute the kernel matrix of all rows in strips; it is kept in the precision that the prices need."""
    xp, place = group.batch.place.xp, group.batch.place
    wide = accumulator_dtype(place)
    x = xp.astype(group.batch.table.numeric, wide, copy=False)
    n = x.shape[0]
    level = float(xp.mean(kernel.diagonal(xp, x)))
    matrix = scratch(xp, (n, n), xp.float32 if _is_narrow(group, level) else wide, place.device)
    for start in range(0, n, _STRIP):
        stop = min(start + _STRIP, n)
        strip = xp.astype(kernel.gram(xp, x[start:stop, :], x[start:, :]), matrix.dtype, copy=False)
        matrix[start:stop, start:] = strip
        matrix[stop:, start:stop] = xp.matrix_transpose(strip[:, stop - start :])
    return matrix


def _tasks_of(group: Group, sample: LabelledRows, fold: Fold) -> list[tuple[Task, HostArray]]:
    """Return the two-class tasks of a fold on all rows, and the share of C that bounds each row in them."""
    model, codes = group.model, sample.labels.codes
    n, k = sample.n_rows, sample.labels.classes.shape[0]
    weight = None if sample.sample_weight is None else sample.sample_weight.take(fold.train)
    shares = model._bounds(codes.take(fold.train), weight)
    tasks = make_tasks(model.multiclass, codes, k)
    found = []
    for task in tasks:
        sign, share, of_row = np.ones(n), np.zeros(n), np.zeros(n)
        of_row[fold.train] = shares
        sign[task.rows], share[task.rows] = task.sign, of_row[task.rows]
        found.append((Task(task.rows, sign), share))
    return found


# ---- on a CPU: along the prices


def _judge_along(
    group: Group, sample: LabelledRows, folds: Sequence[Fold], some: list[int], matrix: Array
) -> Iterator[tuple[int, int, Answers]]:
    """Solve the tasks of all folds side by side, one price after the other."""
    settings = group.model._settings()
    shared = SharedMatrix(group.batch.place, matrix, matrix.dtype)
    tasks = [_tasks_of(group, sample, folds[f]) for f in some]
    paths = [
        Path(task.rows, task.sign[task.rows], share[task.rows]) for fold in tasks for task, share in fold
    ]
    n_tasks = len(tasks[0])
    for c, solved in zip(group.members, _follow(shared, paths, n_tasks, group, settings), strict=True):
        for k, f in enumerate(some):
            points = solved[k * n_tasks : (k + 1) * n_tasks]
            decisions = _decide(shared, [task.rows for task, _ in tasks[k]], points, folds[f].test)
            yield c, f, _answers(group.model, decisions)


def _decide(
    shared: SharedMatrix, members: Sequence[HostArray], points: Sequence[Point], test: HostArray
) -> HostArray:
    """Return the decision values (m, tasks) of the held-out rows of a fold."""
    n = shared.source.n
    if all(rows.shape[0] == n for rows in members):
        found: HostArray = np.stack([point.product.take(test) + point.offset for point in points], axis=1)
        return found
    place = shared.source.place
    betas = np.zeros((n, len(points)))
    for k, (rows, point) in enumerate(zip(members, points, strict=True)):
        betas[rows, k] = point.beta
    values = shared.source.rows(shared.source.positions(test))
    found = to_host(values @ from_host(betas, place, values.dtype)).astype(np.float64)
    found += [point.offset for point in points]
    return found


def _follow(
    shared: SharedMatrix, paths: list[Path], n_tasks: int, group: Group, settings: Settings
) -> Iterator[list[Point]]:
    """Yield the points of all paths, price by price; those of a fold's tasks stand side by side."""
    if is_compiled_batch(shared.source, [path.rows.shape[0] for path in paths], settings):
        yield from follow_together(shared.source, paths, group.prices, settings)
        return
    stores = [shared.between(path.rows) for path in paths[:n_tasks]]
    running = [
        follow_path(stores[k % n_tasks], path.sign, path.share, group.prices, settings)
        for k, path in enumerate(paths)
    ]
    for _ in group.prices:
        is_shared = shared.source.n >= _WORTH_A_THREAD
        yield list(parallel_blocks(next, running) if is_shared else map(next, running))


# ---- on a GPU, where a decision of the host costs a sync, or with few rows: everything in one batch


def _judge_at_once(
    group: Group, sample: LabelledRows, folds: Sequence[Fold], some: list[int], matrix: Array
) -> Iterator[tuple[int, int, Answers]]:
    """Solve folds that share a kernel, for all prices and tasks, in batches that fit the memory."""
    place, settings = group.batch.place, group.model._settings()
    wide = place.xp.astype(matrix, accumulator_dtype(place), copy=False)
    n_tasks = len(_tasks_of(group, sample, folds[some[0]]))
    bytes_per_fold = _BATCH_ARRAYS * 8 * sample.n_rows * n_tasks * len(group.prices)
    for chunk in row_chunks(len(some), bytes_per_fold):
        tasks = [_tasks_of(group, sample, folds[f]) for f in some[chunk]]
        problems = [
            (task.sign, price * share) for fold in tasks for price in group.prices for task, share in fold
        ]
        sign, bound = (np.stack([problem[i] for problem in problems]) for i in (0, 1))
        found = solve_columns(place, matrix, sign, bound, settings)
        values = to_host(found.beta @ wide + found.offset[:, None])
        values = values.reshape(len(tasks), len(group.prices), n_tasks, -1)
        for i, f in enumerate(some[chunk]):
            for j, c in enumerate(group.members):
                yield c, f, _answers(group.model, values[i, j].take(folds[f].test, axis=1).T)


def _answers(model: Any, decisions: HostArray) -> Answers:
    """Make predictions of the decision values (n, tasks) of the two-class tasks."""
    xp, k = HOST.xp, model.classes_.shape[0]
    is_paired = model.multiclass == "ovo" and k > 2
    votes = scores = decisions
    if is_paired:
        votes, scores = score_pairs(xp, decisions, list_pairs(HOST, k, decisions.dtype))
    ranked = scores if model.break_ties else votes
    codes = (decisions[:, 0] > 0).astype("int64") if k == 2 else ranked.argmax(axis=1)
    shown = decisions if is_paired and model.decision_function_shape == "ovo" else scores
    classes = model.classes_
    return Answers(
        classes,
        {
            "predict": lambda: classes.take(codes),
            "decision_function": lambda: shown[:, 0] if k == 2 else shown,
        },
    )
