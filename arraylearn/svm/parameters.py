"""Parameters of the support vector estimators: checks, and what the solvers are given."""

from __future__ import annotations

import logging
from numbers import Real
from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.errors import MemoryBudgetError
from arraylearn.backend.namespace import Place, accumulator_dtype, read_flags
from arraylearn.checks import check_choice, check_integer, check_number, refuse
from arraylearn.kernels import Kernel, Precomputed, as_kernel, resolve_gamma
from arraylearn.svm.kernel_matrix import KernelMatrix
from arraylearn.svm.solvers.stopping import Settings

__all__ = [
    "check_memory",
    "check_price",
    "check_shared",
    "class_factors",
    "is_precomputed",
    "make_matrix",
    "make_settings",
]

_log = logging.getLogger("arraylearn.svm")
_STRIP_ROWS = 1024  # rows of a precomputed kernel whose symmetry is checked at a time


def check_shared(estimator: Any) -> None:
    """Check the parameters that all support vector estimators have."""
    check_number("tol", estimator.tol, 0.0, closed="neither")
    check_integer("max_iter", estimator.max_iter, -1)
    check_number("cache_size", estimator.cache_size, 0.0, closed="neither")
    if isinstance(estimator.gamma, str):
        check_choice("gamma", estimator.gamma, ("scale", "auto"))
    else:
        check_number("gamma", estimator.gamma, 0.0)


def check_price(value: Any) -> None:
    """Raise unless `C` is positive; infinity is allowed."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0:
        raise refuse("C", "must be a positive number, or inf", repr(value))


def make_settings(estimator: Any) -> Settings:
    """Make the settings of the solvers from the estimator's parameters."""
    report = estimator.verbose if callable(estimator.verbose) else None
    if estimator.verbose and report is None:
        report = _log_progress
    cache_bytes = int(float(estimator.cache_size) * (1 << 20))
    return Settings(float(estimator.tol), int(estimator.max_iter), cache_bytes, report)


def _log_progress(n_steps: int, gap: float) -> None:
    _log.info("%d steps, gap %.3g", n_steps, gap)


def make_matrix(estimator: Any, place: Place, x: Array) -> tuple[Kernel, KernelMatrix]:
    """Check that memory suffices for the rows, and make their kernel and its matrix."""
    is_matrix = is_precomputed(estimator.kernel)
    if is_matrix:
        _check_symmetric(place, x)
    n_bytes = 16 * x.shape[0]
    check_memory(n_bytes, estimator.cache_size, "a pair of kernel rows", "Raise it, or fit fewer rows.")
    gamma = _gamma(estimator.kernel, estimator.gamma, place, x)
    kernel = as_kernel(estimator.kernel, gamma=gamma, degree=estimator.degree, coef0=float(estimator.coef0))
    return kernel, KernelMatrix(place, x, None if is_matrix else kernel.gram)


def _gamma(kernel: object, gamma: Any, place: Place, x: Array) -> float:
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
    if n_bytes > cache_size * (1 << 20):
        raise MemoryBudgetError(
            f"{what} takes {n_bytes / (1 << 20):.0f} MB; `cache_size` allows {cache_size:g} MB. {remedy}"
        )


def is_precomputed(kernel: object) -> bool:
    """Whether `X` holds kernel values instead of rows."""
    return (isinstance(kernel, str) and kernel == "precomputed") or isinstance(kernel, Precomputed)


def class_factors(class_weight: dict[Any, float] | str | None, classes: Any, codes: Any, weight: Any) -> Any:
    """Return the factor of C of each class (k,), on the host.

    For "balanced", the total weight over k times the weight of the class; 0 for a class without weight.
    """
    k = classes.shape[0]
    factors = np.ones((k,), dtype=np.float64)
    if class_weight is None:
        return factors
    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ("balanced",))
        for c in range(k):
            total = weight[codes == c].sum()
            factors[c] = weight.sum() / (k * total) if total > 0 else 0.0
        return factors
    known = classes.tolist()
    for label, factor in class_weight.items():
        if label not in known:
            raise refuse("class_weight", "must name classes of `y`", repr(label))
        if not factor > 0:
            raise refuse("class_weight", "must hold positive numbers", f"{factor!r} for {label!r}")
        factors[known.index(label)] = float(factor)
    return factors
