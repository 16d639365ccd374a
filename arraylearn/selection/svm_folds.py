"""Support vector classifiers on all folds, prices and pairs of classes, from one kernel matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone

from arraylearn._typing import Array
from arraylearn.backend.memory import get_memory_budget
from arraylearn.backend.namespace import HOST, Place, accumulator_dtype, from_host, read_flags, to_host
from arraylearn.backend.ops import reads_are_free, scratch
from arraylearn.estimator import Batch
from arraylearn.kernels import Custom, Kernel, Linear, Precomputed, as_kernel, resolve_gamma
from arraylearn.selection.active_sets import follow_paths
from arraylearn.selection.answers import Answers
from arraylearn.selection.folds import Fold, Sample
from arraylearn.svm import SVC
from arraylearn.svm.batched import solve_columns
from arraylearn.svm.machine import one_vs_rest_scores
from arraylearn.svm.parameters import make_settings
from arraylearn.svm.rows import WholeMatrix
from arraylearn.svm.tasks import Task, class_tasks, pair_tasks

__all__ = ["is_support_vector_classifier", "judge_svc_folds"]

Host = Any  # a NumPy array
Candidate = dict[str, Any]

# Above this many tolerances a price (on a kernel of mean diagonal 1) needs kernel values in float64.
_LARGE_PRICE = 1e6
# Pairs of classes with fewer rows are solved faster one by one than along the prices.
_LEAST_ROWS = 500
_STRIP = 256  # rows of the kernel matrix that are made at a time


class Group(NamedTuple):
    """Candidates that differ in C alone."""

    model: Any  # an SVC with C = 1 that has read the sample
    batch: Batch
    members: list[int]  # ascending in C
    prices: list[float]


def is_support_vector_classifier(estimator: Any) -> bool:
    """Whether an estimator is our SVC, and not a variant of it."""
    return type(estimator) is SVC


def judge_svc_folds(
    estimator: Any, candidates: Sequence[Candidate], sample: Sample, folds: Sequence[Fold]
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
        judge = _judge_along if reads_are_free(group.batch.place.device) else _judge_at_once
        for kernel, some in _by_kernel(group, folds, usable):
            yield from judge(group, sample, folds, some, _gram(group, kernel))


# ---- which candidates share what


def _open_groups(estimator: Any, candidates: Sequence[Candidate], sample: Sample) -> Iterator[Group]:
    """Group the candidates by all but C, and read the sample for each group."""
    groups: dict[str, list[int]] = {}
    models = []
    for c, candidate in enumerate(candidates):
        model = clone(estimator).set_params(**clone(candidate, safe=False))
        models.append(model)
        if _is_eligible(model, sample):
            key = {name: value for name, value in model.get_params(deep=False).items() if name != "C"}
            groups.setdefault(repr(key), []).append(c)
    for members in groups.values():
        members.sort(key=lambda c: float(models[c].C))
        model = models[members[0]]
        prices = [float(models[c].C) for c in members]
        try:
            model.set_params(C=1.0)._check_parameters()
            batch, _ = model._open_fit(sample.X, sample.y)
        except (TypeError, ValueError):
            continue
        if not any(read_flags(batch.place, batch.is_bad)):
            yield Group(model, batch, members, prices)


def _is_eligible(model: Any, sample: Sample) -> bool:
    is_plain = not model.warm_start and not model.probability and model.max_iter == -1
    if not is_plain or not isinstance(model.C, int | float) or not 0 < model.C < math.inf:
        return False
    if not isinstance(model.kernel, str | Kernel) or isinstance(model.kernel, Linear | Precomputed | Custom):
        return False
    n, k = sample.n_rows, sample.labels.classes.shape[0]
    if k > 2 and model.multiclass == "ovo" and 2 * n < k * _LEAST_ROWS:
        return False
    # the matrix in float64 while it is made, in float32 when it is used, and its parts
    is_small = 24 * n**2 <= get_memory_budget()
    return bool(is_small and model.kernel not in ("linear", "precomputed"))


def _knows_all_classes(sample: Sample, fold: Fold) -> bool:
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


def _gram(group: Group, kernel: Kernel) -> Array:
    """Compute the kernel matrix of all rows in strips; it is kept in the precision that the prices need."""
    xp, place = group.batch.place.xp, group.batch.place
    wide = accumulator_dtype(place)
    x = xp.astype(group.batch.table.numeric, wide, copy=False)
    level = float(xp.mean(kernel.diagonal(xp, x)))
    is_small = group.prices[-1] * level < _LARGE_PRICE * group.model.tol
    n = x.shape[0]
    matrix = scratch(xp, (n, n), xp.float32 if is_small else wide, place.device)
    for start in range(0, n, _STRIP):
        stop = min(start + _STRIP, n)
        strip = xp.astype(kernel.gram(xp, x[start:stop, :], x[start:, :]), matrix.dtype, copy=False)
        matrix[start:stop, start:] = strip
        matrix[stop:, start:stop] = xp.matrix_transpose(strip[:, stop - start :])
    return matrix


def _tasks_of(group: Group, sample: Sample, fold: Fold) -> list[tuple[Task, Host]]:
    """Return the two-class tasks of a fold on all rows, and the share of C that bounds each row in them."""
    model, codes = group.model, sample.labels.codes
    n, k = sample.n_rows, sample.labels.classes.shape[0]
    weight = None if sample.sample_weight is None else sample.sample_weight.take(fold.train)
    shares = model._bounds(codes.take(fold.train), weight)
    tasks = (class_tasks if model.multiclass == "ova" else pair_tasks)(codes, k)
    found = []
    for task in tasks:
        sign, share, whole = HOST.xp.ones(n), HOST.xp.zeros(n), HOST.xp.zeros(n)
        whole[fold.train] = shares
        sign[task.rows], share[task.rows] = task.sign, whole[task.rows]
        found.append((Task(task.rows, sign), share))
    return found


# ---- where the host decides: along the prices


def _judge_along(
    group: Group, sample: Sample, folds: Sequence[Fold], some: list[int], matrix: Array
) -> Iterator[tuple[int, int, Answers]]:
    """Solve the tasks of all folds side by side, price after price."""
    settings = make_settings(group.model)
    matrices = Matrices(group.batch.place, matrix)
    tasks = [_tasks_of(group, sample, folds[f]) for f in some]
    paths = []
    for t, (task, _) in enumerate(tasks[0]):
        shares = [fold[t][1][task.rows] for fold in tasks]
        store = matrices.part(task.rows)
        paths.append(follow_paths(store, task.sign[task.rows], shares, group.prices, settings))
    for c, points in zip(group.members, zip(*paths, strict=True), strict=True):
        for i, f in enumerate(some):
            values = []
            for (task, _), found in zip(tasks[0], points, strict=True):
                product = found[i].product
                if task.rows.shape[0] < sample.n_rows:
                    product = matrices.multiply(task.rows, found[i].beta)
                values.append(product.take(folds[f].test) + found[i].offset)
            yield c, f, _answers(group.model, HOST.xp.stack(values, axis=1))


class Matrices:
    """The kernel matrix of all rows, and its parts between the rows of each task."""

    def __init__(self, place: Place, matrix: Array) -> None:
        self.whole = WholeMatrix(place, matrix, matrix.dtype)

    def part(self, rows: Host) -> WholeMatrix:
        """Return the matrix between some rows."""
        place = self.whole.matrix.place
        if rows.shape[0] == self.whole.matrix.n:
            return self.whole
        idx = from_host(rows, place, place.xp.int64)
        return WholeMatrix(place, self.whole.block(idx, idx), self.whole.dtype)

    def multiply(self, rows: Host, weights: Host) -> Host:
        """Return the weighted sum of some rows of the whole matrix."""
        place = self.whole.matrix.place
        used = weights.nonzero()[0]
        idx = from_host(rows.take(used), place, place.xp.int64)
        return to_host(
            self.whole.combine(idx, from_host(weights.take(used), place, accumulator_dtype(place)))
        )


# ---- where a decision costs a wait: everything in one batch


def _judge_at_once(
    group: Group, sample: Sample, folds: Sequence[Fold], some: list[int], matrix: Array
) -> Iterator[tuple[int, int, Answers]]:
    """Solve all folds that share a kernel, for all prices and tasks, as one batch."""
    place, settings = group.batch.place, make_settings(group.model)
    tasks = [_tasks_of(group, sample, folds[f]) for f in some]
    problems = [
        (task.sign, price * share) for fold in tasks for price in group.prices for task, share in fold
    ]
    sign, bound = (HOST.xp.stack([problem[i] for problem in problems]) for i in (0, 1))
    found = solve_columns(place, matrix, sign, bound, settings)
    wide = place.xp.astype(matrix, found.beta.dtype, copy=False)
    values = to_host(found.beta @ wide + found.offset[:, None])
    values = values.reshape(len(some), len(group.prices), len(tasks[0]), -1)
    for i, f in enumerate(some):
        for j, c in enumerate(group.members):
            yield c, f, _answers(group.model, values[i, j].take(folds[f].test, axis=1).T)


def _answers(model: Any, decisions: Host) -> Answers:
    """Make the answers of a classifier of the decision values (n, tasks) of its tasks."""
    xp, k = HOST.xp, model.classes_.shape[0]
    is_paired = model.multiclass == "ovo" and k > 2
    scores = one_vs_rest_scores(xp, decisions, k) if is_paired else decisions
    codes = (decisions[:, 0] > 0).astype("int64") if k == 2 else scores.argmax(axis=1)
    shown = decisions if is_paired and model.decision_function_shape == "ovo" else scores
    classes = model.classes_
    return Answers(
        classes,
        {
            "predict": lambda: classes.take(codes),
            "decision_function": lambda: shown[:, 0] if k == 2 else shown,
        },
    )
