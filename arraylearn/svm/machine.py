"""Support vector machines once fitted, and the base of the estimators that fit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import array_api_compat
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from arraylearn._typing import Array, Dtype, HostArray, Namespace
from arraylearn.backend.errors import MemoryBudgetError, warn_caller
from arraylearn.backend.memory import row_chunks
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host, read_flags, to_host
from arraylearn.backend.threads import small_products
from arraylearn.checks import check_choice, check_integer, check_number, is_number, refuse
from arraylearn.estimator import ArrayEstimator, Batch
from arraylearn.kernels.objects import Kernel, Linear, Precomputed, as_kernel, resolve_gamma
from arraylearn.progress import show_progress
from arraylearn.svm.solvers.dual import NO_LIMIT, KernelMatrix, Settings

__all__ = [
    "ClassPairs",
    "Machine",
    "MachineEstimator",
    "assemble",
    "check_memory",
    "check_price",
    "decide",
    "host_vectors",
    "is_precomputed",
    "list_pairs",
    "read_only",
    "score_pairs",
]


_CELLS_AT_ONCE = 2_000_000  # kernel values that are computed at a time, so that they stay in the cache
_STRIP_ROWS = 1024  # rows of a precomputed kernel whose symmetry is checked at a time


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
    matrix: KernelMatrix,
    support: HostArray,
    weights: HostArray,
    intercept: HostArray,
    *,
    ends: tuple[int, ...] = (),
) -> Machine:
    """Make a machine from the rows `support` of a kernel matrix, their weights and intercepts."""
    place, x, kernel = matrix
    idx = matrix.positions(support)
    vectors = idx if matrix.is_precomputed else place.xp.take(x, idx, axis=0)
    machine = Machine(
        kernel, vectors, from_host(weights, place, x.dtype), from_host(intercept, place, x.dtype), None, ends
    )
    return machine._replace(direction=_directions(place, machine)) if matrix.is_linear else machine


def host_vectors(machine: Machine) -> HostArray:
    """Return the support vectors as a NumPy array; none for a precomputed kernel."""
    if isinstance(machine.kernel, Precomputed):
        return np.zeros((0, 0))
    return read_only(to_host(machine.vectors))


def read_only(values: HostArray) -> HostArray:
    """Return a view that cannot be written to, because a fitted model lies below."""
    view = values.view()
    view.flags.writeable = False
    return view


class ClassPairs(NamedTuple):
    """The pairs i < j of k classes, in the order of their decision values."""

    sides: Array  # (p, k): 1 for the class i of a pair, -1 for its class j, else 0
    first: Array  # (p,): where the part of class i lies among the (k, k - 1) parts of a decision value
    second: Array  # (p,): where the part of class j lies


@cache
def _host_pairs(n_classes: int) -> ClassPairs:
    i, j = np.triu_indices(n_classes, 1)
    eye = np.eye(n_classes)
    return ClassPairs(eye[i] - eye[j], i * (n_classes - 1) + j - 1, j * (n_classes - 1) + i)


def list_pairs(place: Place, n_classes: int, dtype: Dtype) -> ClassPairs:
    """Return the pairs of classes as arrays at a place, where `sides` has this dtype."""
    sides, first, second = _host_pairs(n_classes)
    return ClassPairs(from_host(sides, place, dtype), from_host(first, place), from_host(second, place))


def decide(xp: Namespace, machine: Machine, x: Array, pairs: ClassPairs | None) -> Array:
    """Return the decision values (n, p) of rows; a machine of pairs needs `pairs`."""
    if machine.direction is not None:
        return x @ xp.matrix_transpose(machine.direction) + machine.intercept
    n, s = x.shape[0], machine.weights.shape[1]
    chunks = list(row_chunks(n, s * 8, most=max(1, _CELLS_AT_ONCE // max(1, s))))
    # kernels use threads of their own
    with small_products(xp) if len(chunks) > 1 else nullcontext():
        parts = [_decide_some(xp, machine, x[chunk, :], pairs) for chunk in chunks]
    if not parts:
        return x[:, :1] @ machine.intercept[None, :]
    return xp.concat(parts) if len(parts) > 1 else parts[0]


def _directions(place: Place, machine: Machine) -> Array:
    """Return the column weights (p, d) of a machine with the linear kernel."""
    xp, dtype = place.xp, machine.vectors.dtype
    eye = xp.eye(machine.vectors.shape[1], dtype=dtype, device=place.device)
    pairs = list_pairs(place, len(machine.ends), dtype) if machine.is_pairwise else None
    return xp.matrix_transpose(decide(xp, machine._replace(intercept=0.0 * machine.intercept), eye, pairs))


def _decide_some(xp: Namespace, machine: Machine, x: Array, pairs: ClassPairs | None) -> Array:
    """Return the decision values of rows from all their kernel values at once."""
    if isinstance(machine.kernel, Precomputed):
        values = xp.take(x, machine.vectors, axis=1)
    else:
        values = machine.kernel.gram(xp, x, machine.vectors)
    weights = xp.matrix_transpose(machine.weights)
    if pairs is None:
        return values @ weights + machine.intercept
    bounds = pairwise((0, *machine.ends))
    parts = xp.concat([values[:, a:b] @ weights[a:b, :] for a, b in bounds], axis=1)
    return xp.take(parts, pairs.first, axis=1) + xp.take(parts, pairs.second, axis=1) + machine.intercept


def score_pairs(xp: Namespace, decisions: Array, pairs: ClassPairs) -> tuple[Array, Array]:
    """Turn the decisions of all pairs into votes and a score per class, as scikit-learn does.

    The score is the number of votes, plus the sum of the class's decision values mapped into (-1/3, 1/3).
    The sum thus decides between classes with equal votes only, for example where three classes beat each
    other in a circle.

    Parameters
    ----------
    decisions : array (n, p)
        Positive for the first class of each pair.
    pairs : ClassPairs
        The pairs of k classes.

    Returns
    -------
    votes, scores : arrays (n, k)
        Of each class.
    """
    sides, k = pairs.sides, pairs.sides.shape[1]
    total = decisions @ sides
    # class j is the second one of j pairs, and wins those whose first class does not
    lost = xp.arange(k, dtype=sides.dtype, device=array_api_compat.device(sides))
    votes = xp.astype(decisions >= 0, sides.dtype) @ sides + lost
    return votes, votes + total / (3.0 * (xp.abs(total) + 1.0))


# ---- estimators


class Outcome(Protocol):
    """How a solve ended: a `TaskResult` or a `DualSolution`."""

    @property
    def gap(self) -> float: ...

    @property
    def is_converged(self) -> bool: ...

    @property
    def is_stalled(self) -> bool: ...


@dataclass(kw_only=True, eq=False, repr=False)
class MachineEstimator(ArrayEstimator):
    """Base of `SVC`, `OneClassSVM` and `SVDD`: their shared parameters, kernel matrix and decision values."""

    _accepts_missing: ClassVar[bool] = False
    _accepts_nominal: ClassVar[bool] = False

    kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf"
    degree: int = 3
    gamma: float | Literal["scale", "auto"] = "scale"
    coef0: float = 0.0
    tol: float = 1e-3
    max_iter: int = NO_LIMIT
    cache_size: float = 200
    verbose: int | Callable[[int, float], None] = 0
    backend: str | None = None
    kernel_: Kernel = field(init=False)
    model_: Machine = field(init=False)

    def _check_parameters(self) -> None:
        """Check the parameters that all support vector estimators have."""
        check_number("tol", self.tol, 0.0, closed="neither")
        check_integer("max_iter", self.max_iter, NO_LIMIT)
        check_number("cache_size", self.cache_size, 0.0, closed="neither")
        if isinstance(self.gamma, str):
            check_choice("gamma", self.gamma, ("scale", "auto"))
        else:
            check_number("gamma", self.gamma, 0.0)

    def _settings(self) -> Settings:
        """Return what the solvers are given, from the parameters."""
        return Settings(float(self.tol), int(self.max_iter), int(float(self.cache_size) * (1 << 20)))

    @contextmanager
    def _reporting(self) -> Iterator[Settings]:
        """Yield the settings for solvers that report to the caller's function, or to a bar."""
        settings, verbose = self._settings(), self.verbose
        if callable(verbose):
            yield settings._replace(report=verbose)
        elif not verbose:
            yield settings
        else:
            with show_progress("solving", None, verbose, measure="gap") as advance:
                yield settings._replace(report=lambda _, gap: advance(gap))

    def _make_matrix(self, batch: Batch, weight: HostArray | None) -> KernelMatrix:
        """Check the rows, and that memory suffices for them; make their kernel and its matrix.

        Rows without `weight` (n,) have no part in gamma.
        """
        self._refuse_bad(*read_flags(batch.place, batch.is_bad))
        x = batch.table.numeric
        if is_precomputed(self.kernel):
            _check_symmetric(batch.place, x)
        remedy = "Raise it, or fit fewer rows."
        check_memory(16 * x.shape[0], self.cache_size, "a pair of kernel rows", remedy)
        rows = x
        if weight is not None and not weight.all():
            rows = batch.place.xp.take(x, from_host(weight.nonzero()[0], batch.place), axis=0)
        gamma = _gamma(self.kernel, self.gamma, batch.place, rows)
        kernel = as_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=float(self.coef0))
        return KernelMatrix(batch.place, x, kernel)

    def _warn_unfinished(self, outcomes: Sequence[Outcome]) -> None:
        """Warn if the gap of a problem stayed above `tol`: how large it is, why, and what to do."""
        unfinished = [outcome for outcome in outcomes if not outcome.is_converged]
        if not unfinished:
            return
        worst = max(outcome.gap for outcome in unfinished)
        if all(outcome.is_stalled for outcome in unfinished):
            reason = "rounding allows no smaller one. Raise `tol`"
        else:
            reason = f"max_iter={self.max_iter} was reached. Raise `max_iter`"
        warn_caller(
            f"{len(unfinished)} of {len(outcomes)} problems stopped at a gap of up to {worst:.3g} > "
            f"tol={self.tol:g}: {reason}, scale the columns of `X`, or use another kernel.",
            ConvergenceWarning,
        )

    def _decisions(self, batch: Batch) -> Array:
        """Return the decision values (n, p) of all tasks."""
        model: Machine = self._model_at(batch.place)
        x = batch.place.xp.astype(batch.table.numeric, model.weights.dtype, copy=False)
        return decide(batch.place.xp, model, x, self._pairs_at(batch.place, model))

    def _pairs_at(self, place: Place, model: Machine) -> ClassPairs | None:
        """Return the pairs of classes where a prediction computes; None where the tasks are not pairs."""
        if not model.is_pairwise:
            return None
        dtype = model.weights.dtype
        pairs: ClassPairs = self._prepared_at(
            place, ("pairs", dtype), lambda: list_pairs(place, len(model.ends), dtype)
        )
        return pairs

    def _column_weights(self, name: str) -> HostArray:
        """Return the column weights (p, d) as the attribute `name`, which the linear kernel alone has."""
        if not isinstance(self.__dict__.get("kernel_", Linear()), Linear):
            raise AttributeError(f"`{name}` exists for the linear kernel only.")
        check_is_fitted(self)
        return read_only(to_host(self.model_.direction))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags


def check_price(value: Any) -> None:
    """Raise unless `C` is positive; infinity is allowed."""
    if not is_number(value) or not value > 0:
        raise refuse("C", "must be a positive number, or inf", repr(value))


def _gamma(kernel: object, gamma: str | float, place: Place, x: Array) -> float:
    """Return gamma as a number; "scale" costs one sync."""
    if gamma == "auto":
        return 1.0 / int(x.shape[1])
    if gamma != "scale":
        return float(gamma)
    if not isinstance(kernel, str) or kernel in ("linear", "precomputed"):
        return 1.0  # this kernel has no gamma, or one of its own
    wide = place.xp.astype(x, accumulator_dtype(place), copy=False)
    return float(resolve_gamma(place.xp, wide, gamma))


def _check_symmetric(place: Place, matrix: Array) -> None:
    """Raise unless a precomputed kernel is a symmetric square matrix: one sync."""
    xp = place.xp
    n = matrix.shape[0]
    if matrix.shape[1] != n:
        raise ValueError(
            f"a precomputed kernel must be a square matrix between the training rows; "
            f"got shape {tuple(matrix.shape)}."
        )
    largest = xp.max(xp.abs(matrix))
    tolerance = 100 * float(xp.finfo(matrix.dtype).eps) * largest
    flags = []
    for start in range(0, n, _STRIP_ROWS):
        strip = matrix[start : start + _STRIP_ROWS, :]
        mirror = xp.matrix_transpose(matrix[:, start : start + _STRIP_ROWS])
        flags.append(xp.all(xp.abs(strip - mirror) <= tolerance))
    if not all(read_flags(place, *flags)):
        raise ValueError(
            "a precomputed kernel must be symmetric; X[i, j] and X[j, i] differ. "
            "Average the two, or compute the matrix from one function."
        )


def check_memory(n_bytes: int, cache_size: float, what: str, remedy: str) -> None:
    """Raise if something needs more memory than `cache_size` allows."""
    if n_bytes > float(cache_size) * (1 << 20):
        raise MemoryBudgetError(
            f"{what} takes {n_bytes / (1 << 20):.0f} MB; `cache_size` allows {cache_size:g} MB. {remedy}"
        )


def is_precomputed(kernel: object) -> bool:
    """Whether `X` holds kernel values instead of rows."""
    return (isinstance(kernel, str) and kernel == "precomputed") or isinstance(kernel, Precomputed)
