"""The decision function of a fitted support vector machine."""

from __future__ import annotations

from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from arraylearn._typing import Array, Namespace
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, from_host, to_host
from arraylearn.backend.threads import small_products
from arraylearn.kernels import Kernel, Linear, Precomputed

__all__ = ["Machine", "assemble", "decide", "host_vectors", "one_vs_rest_scores"]

Host = Any  # a NumPy array

# Kernel values that are computed at a time, so that they stay in the cache.
_CELLS_AT_ONCE = 2_000_000


class Machine(NamedTuple):
    """Support vectors and their weights, in one of two layouts.

    One row of weights per task: a decision value is the weighted sum of kernel values. Pairs of k > 2 classes
    (`is_pairwise`): LIBSVM's layout, in which the support vectors are ordered by class and have k - 1 weights
    each, since a support vector of class i belongs to the k - 1 pairs of i. For three classes::

                    vectors of class 0   of class 1   of class 2
        weights[0]        (0, 1)           (0, 1)       (0, 2)        the pair that each weight belongs to
        weights[1]        (0, 2)           (1, 2)       (1, 2)
    """

    kernel: Kernel
    vectors: Array  # (s, d); for a precomputed kernel the positions (s,) of the support vectors
    weights: Array  # (r, s): r = p tasks, or k - 1 for pairs of k classes
    intercept: Array  # (p,)
    direction: Array | None  # (p, d): column weights, for the linear kernel; else None
    ends: tuple[int, ...]  # (k,): where each class ends among the support vectors; empty unless pairwise

    @property
    def is_pairwise(self) -> bool:
        """Whether the weights are those of pairs of more than two classes."""
        return bool(self.ends)


def assemble(
    place: Place,
    kernel: Kernel,
    x: Array,
    support: Host,
    weights: Host,
    intercept: Host,
    *,
    ends: tuple[int, ...] = (),
) -> Machine:
    """Make a machine from the rows `support` of `x`, their weights and intercepts, in the dtype of `x`."""
    xp = place.xp
    idx = from_host(support, place, xp.int64)
    vectors = idx if isinstance(kernel, Precomputed) else xp.take(x, idx, axis=0)
    machine = Machine(
        kernel, vectors, from_host(weights, place, x.dtype), from_host(intercept, place, x.dtype), None, ends
    )
    if isinstance(kernel, Linear):
        machine = machine._replace(direction=_directions(xp, machine))
    return machine


def host_vectors(machine: Machine) -> Host:
    """Return the support vectors as a NumPy array; none for a precomputed kernel."""
    if isinstance(machine.kernel, Precomputed):
        return np.zeros((0, 0))
    return to_host(machine.vectors)


def decide(xp: Namespace, machine: Machine, x: Array) -> Array:
    """Return the decision values (n, p) of rows."""
    if machine.direction is not None:
        return x @ xp.matrix_transpose(machine.direction) + machine.intercept
    n, s = x.shape[0], machine.weights.shape[1]
    chunks = row_chunks(n, s * 8, most=max(1, _CELLS_AT_ONCE // max(1, s)))
    with small_products(xp):  # kernels use threads of their own
        parts = [_decide_some(xp, machine, x[chunk, :]) for chunk in chunks]
    if not parts:
        return x[:, :1] @ machine.intercept[None, :]
    return xp.concat(parts) if len(parts) > 1 else parts[0]


def _directions(xp: Namespace, machine: Machine) -> Array:
    """Return the column weights (p, d) of a machine with the linear kernel."""
    d = machine.vectors.shape[1]
    eye = xp.eye(d, dtype=machine.vectors.dtype, device=array_api_compat.device(machine.vectors))
    return xp.matrix_transpose(decide(xp, machine._replace(intercept=0.0 * machine.intercept), eye))


def _decide_some(xp: Namespace, machine: Machine, x: Array) -> Array:
    """Return the decision values of rows from all their kernel values at once."""
    if isinstance(machine.kernel, Precomputed):
        values = xp.take(x, machine.vectors, axis=1)
    else:
        values = machine.kernel.gram(xp, x, machine.vectors)
    if not machine.is_pairwise:
        return values @ xp.matrix_transpose(machine.weights) + machine.intercept
    starts = (0, *machine.ends[:-1])
    by_class = [
        values[:, a:b] @ xp.matrix_transpose(machine.weights[:, a:b])
        for a, b in zip(starts, machine.ends, strict=True)
    ]
    k = len(machine.ends)
    pairs = [by_class[i][:, j - 1] + by_class[j][:, i] for i in range(k) for j in range(i + 1, k)]
    return xp.stack(pairs, axis=1) + machine.intercept


def one_vs_rest_scores(xp: Namespace, decisions: Array, n_classes: int) -> Array:
    """Turn the decisions of all pairs into a score per class, as scikit-learn does.

    The score is the number of votes, plus the sum of the class's decision values mapped into (-1/3, 1/3).
    The sum thus decides between classes with equal votes only, for example where three classes beat each
    other in a circle.

    Parameters
    ----------
    decisions : array (n, k (k - 1) / 2)
        Positive for the first class of pair (i, j), i < j.
    n_classes : int
        k.

    Returns
    -------
    array (n, k)
        The scores.
    """
    votes: list[Any] = [0.0] * n_classes
    sums: list[Any] = [0.0] * n_classes
    pair = 0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            value = decisions[:, pair]
            won = xp.astype(value >= 0, decisions.dtype)
            votes[i], votes[j] = votes[i] + won, votes[j] + (1.0 - won)
            sums[i], sums[j] = sums[i] + value, sums[j] - value
            pair += 1
    total = xp.stack(sums, axis=1)
    return xp.stack(votes, axis=1) + total / (3.0 * (xp.abs(total) + 1.0))
