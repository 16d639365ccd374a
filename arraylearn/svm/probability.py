"""Probabilities from decision values: Platt's sigmoids by cross-validation, and their coupling over pairs."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import HOST, accumulator_dtype, from_host, to_host
from arraylearn.backend.random import RandomState, as_generator
from arraylearn.svm.solvers.dual import KernelMatrix, Settings, product
from arraylearn.svm.tasks import Task, solve_tasks

__all__ = ["Sigmoids", "calibrate", "couple", "fit_sigmoids", "squash"]


_FOLDS = 5
_MOST_STEPS = 100  # of Newton's method
_HALVINGS = 12  # step sizes 1, 1/2, 1/4, ... that are tried in each step
_CLIP = 1e-7  # least probability of either class of a pair, as in LIBSVM


class Sigmoids(NamedTuple):
    """One sigmoid per task: :math:`P(+ | f) = 1 / (1 + e^{a f + b})`."""

    slope: Array  # (p,): a
    shift: Array  # (p,): b


def squash(xp: Namespace, sigmoids: Sigmoids, decisions: Array) -> Array:
    """Return the probability (n, p) of the positive side of each task."""
    exponent = decisions * sigmoids.slope + sigmoids.shift
    small = xp.exp(-xp.abs(exponent))
    return xp.where(exponent >= 0, small / (1.0 + small), 1.0 / (1.0 + small))


def fit_sigmoids(xp: Namespace, decisions: Array, is_positive: Array, is_used: Array) -> Sigmoids:
    """Fit the sigmoid of each row of decision values by maximum likelihood with Platt's targets.

    Newton's method with backtracking, for all tasks at once and without a sync (Lin, Lin and Weng, A note on
    Platt's probabilistic outputs for support vector machines, 2007).

    Parameters
    ----------
    decisions : float array (p, m)
        Decision values of rows that were not trained on.
    is_positive, is_used : bool array (p, m)
        Whether each row is of the positive class, and whether it belongs to the task.
    """
    weight = xp.astype(is_used, decisions.dtype)
    positive = xp.astype(is_positive & is_used, decisions.dtype)
    n_positive = xp.sum(positive, axis=1, keepdims=True)
    n_negative = xp.sum(weight, axis=1, keepdims=True) - n_positive
    target = xp.where(is_positive, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))
    slope = xp.zeros_like(n_positive)
    shift = xp.log((n_negative + 1.0) / (n_positive + 1.0))
    sizes = 0.5 ** xp.arange(_HALVINGS, dtype=decisions.dtype, device=array_api_compat.device(decisions))

    def loss(slopes: Array, shifts: Array) -> Array:
        """Return the negative log likelihood (p, s) of s candidates per task."""
        exponent = decisions[:, None, :] * slopes[:, :, None] + shifts[:, :, None]
        bend = xp.log1p(xp.exp(-xp.abs(exponent)))
        rest = xp.where(exponent >= 0, target[:, None, :], target[:, None, :] - 1.0) * exponent
        return xp.sum(weight[:, None, :] * (rest + bend), axis=2)

    for _ in range(_MOST_STEPS):
        p = squash(xp, Sigmoids(slope, shift), decisions)
        curve = weight * p * (1.0 - p)
        error = weight * (target - p)
        h_aa = xp.sum(decisions * decisions * curve, axis=1, keepdims=True) + 1e-12
        h_bb = xp.sum(curve, axis=1, keepdims=True) + 1e-12
        h_ab = xp.sum(decisions * curve, axis=1, keepdims=True)
        g_a, g_b = (xp.sum(v, axis=1, keepdims=True) for v in (decisions * error, error))
        determinant = h_aa * h_bb - h_ab * h_ab
        d_a, d_b = -(h_bb * g_a - h_ab * g_b) / determinant, -(h_aa * g_b - h_ab * g_a) / determinant
        values = loss(slope + d_a * sizes, shift + d_b * sizes)
        best = xp.argmin(values, axis=1, keepdims=True)
        is_better = xp.take_along_axis(values, best, axis=1) < loss(slope, shift)
        size = xp.where(is_better, xp.take(sizes, best[:, 0], axis=0)[:, None], 0.0)
        slope, shift = slope + size * d_a, shift + size * d_b
    return Sigmoids(slope[:, 0], shift[:, 0])


def couple(xp: Namespace, pairwise: Array, n_classes: int) -> Array:
    r"""Turn the probabilities of all pairs into one distribution over the classes.

    Minimizes :math:`\sum_{i<j} (r_{ji} p_i - r_{ij} p_j)^2` over the simplex, by its linear system (Wu,
    Lin and Weng, Probability estimates for multi-class classification by pairwise coupling, JMLR 2004).

    Parameters
    ----------
    pairwise : float array (n, k (k - 1) / 2)
        The probability of i among {i, j}, pairs i < j in order.
    n_classes : int
        k.
    """
    n, k = pairwise.shape[0], n_classes
    device = array_api_compat.device(pairwise)
    right = xp.concat(
        [
            xp.zeros((k, 1), dtype=pairwise.dtype, device=device),
            xp.ones((1, 1), dtype=pairwise.dtype, device=device),
        ]
    )
    parts = []
    for chunk in row_chunks(n, 32 * (k + 1) ** 2):
        system = _coupling_system(xp, xp.minimum(xp.maximum(pairwise[chunk, :], _CLIP), 1.0 - _CLIP), k)
        rights = xp.broadcast_to(right, (system.shape[0], k + 1, 1))
        p = xp.maximum(xp.linalg.solve(system, rights)[:, :k, 0], 0.0)
        parts.append(p / xp.sum(p, axis=1, keepdims=True))
    return xp.concat(parts) if parts else xp.zeros((0, k), dtype=pairwise.dtype, device=device)


def _coupling_system(xp: Namespace, r: Array, k: int) -> Array:
    """Return the matrices (n, k + 1, k + 1) of the optimality conditions."""
    zero, one = xp.zeros_like(r[:, 0]), xp.ones_like(r[:, 0])
    won = [[zero] * k for _ in range(k)]
    pair = 0
    for i in range(k):
        for j in range(i + 1, k):
            won[i][j], won[j][i] = r[:, pair], 1.0 - r[:, pair]
            pair += 1
    rows = []
    for i in range(k):
        own = sum((won[j][i] * won[j][i] for j in range(k) if j != i), zero)
        row = [own if j == i else -won[j][i] * won[i][j] for j in range(k)]
        rows.append(xp.stack([*row, one], axis=1))
    rows.append(xp.stack([one] * k + [zero], axis=1))
    return xp.stack(rows, axis=1)


def calibrate(
    matrix: KernelMatrix, tasks: list[Task], bound: HostArray, settings: Settings, random_state: RandomState
) -> Sigmoids:
    """Fit the sigmoid of each task to decision values of five-fold cross-validation.

    The parameters are those of `arraylearn.svm.tasks.solve_tasks`; `random_state` seeds the folds.
    """
    rng = as_generator(random_state)
    folds = [_folds(task, bound, rng) for task in tasks]
    parts = [
        Task(task.rows[fold != f], task.sign[fold != f])
        for task, fold in zip(tasks, folds, strict=True)
        for f in range(_FOLDS)
    ]
    results = solve_tasks(matrix, parts, bound, settings)
    m = max(task.rows.shape[0] for task in tasks)
    decisions, side, used = (np.zeros((len(tasks), m)) for _ in range(3))
    for k, (task, fold) in enumerate(zip(tasks, folds, strict=True)):
        side[k, : task.rows.shape[0]] = task.sign > 0
        used[k, : task.rows.shape[0]] = bound[task.rows] > 0
        for f in range(_FOLDS):
            part, result = parts[k * _FOLDS + f], results[k * _FOLDS + f]
            held_out = (fold == f).nonzero()[0]
            support = result.beta.nonzero()[0]
            rows, columns = (matrix.positions(idx) for idx in (task.rows[held_out], part.rows[support]))
            weights = from_host(result.beta[support], matrix.place, accumulator_dtype(matrix.place))
            decisions[k, held_out] = to_host(product(matrix, rows, columns, weights)) + result.intercept
    return fit_sigmoids(HOST.xp, decisions, side > 0, used > 0)


def _folds(task: Task, bound: HostArray, rng: np.random.Generator) -> HostArray:
    """Return the fold of each row of a task, with the rows of either class spread evenly over the folds."""
    fold = np.zeros(task.rows.shape, dtype=np.int64)
    for side in (-1.0, 1.0):
        members = ((task.sign == side) & (bound[task.rows] > 0)).nonzero()[0]
        if members.shape[0] < 2:
            raise ValueError(
                "`probability=True` cross-validates and needs at least two rows of each class with positive "
                f"weight; got {members.shape[0]}."
            )
        order = rng.permutation(members.shape[0])
        fold[members[order]] = np.arange(members.shape[0]) % _FOLDS
    return fold
