"""What the support vector estimators ask of their parameters."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from arraylearn._typing import Array
from arraylearn.backend.errors import MemoryBudgetError
from arraylearn.backend.namespace import Place, accumulator_dtype, read_flags
from arraylearn.checks import refuse
from arraylearn.kernels import Kernel, Precomputed, as_kernel, resolve_gamma
from arraylearn.svm.kernel_matrix import KernelMatrix
from arraylearn.svm.solvers.stopping import Settings

__all__ = [
    "check_choice",
    "check_memory",
    "check_positive",
    "check_settings",
    "check_symmetric",
    "class_factors",
    "is_precomputed",
    "make_matrix",
    "make_settings",
]

_log = logging.getLogger("arraylearn.svm")
_STRIP_ROWS = 1024


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise refuse(name, f"must be one of {', '.join(map(repr, choices))}", repr(value))


def check_settings(estimator: Any) -> None:
    """Refuse impossible settings of the solver."""
    if not _is_number(estimator.tol) or not 0 < estimator.tol < math.inf:
        raise refuse("tol", "must be positive", repr(estimator.tol))
    if not isinstance(estimator.max_iter, int) or estimator.max_iter < -1:
        raise refuse("max_iter", "must be a number of steps, or -1 for no limit", repr(estimator.max_iter))
    if not _is_number(estimator.cache_size) or not 0 < estimator.cache_size < math.inf:
        raise refuse("cache_size", "must be a positive number of megabytes", repr(estimator.cache_size))
    gamma = estimator.gamma
    if isinstance(gamma, str):
        check_choice("gamma", gamma, ("scale", "auto"))
    elif not _is_number(gamma) or not 0 <= gamma < math.inf:
        raise refuse("gamma", "must be 'scale', 'auto' or a number that is not negative", repr(gamma))


def check_positive(name: str, value: object) -> None:
    """Refuse anything but a positive number."""
    if not _is_number(value) or not value > 0:  # type: ignore[operator]
        raise refuse(name, "must be a positive number", repr(value))


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool | str) and not hasattr(value, "__len__")


def make_settings(estimator: Any) -> Settings:
    """Translate the estimator's parameters for the solvers."""
    report = estimator.verbose if callable(estimator.verbose) else None
    if estimator.verbose and report is None:
        report = _log_progress
    cache_bytes = int(float(estimator.cache_size) * (1 << 20))
    return Settings(float(estimator.tol), int(estimator.max_iter), cache_bytes, report)


def _log_progress(n_steps: int, gap: float) -> None:
    _log.info("%d steps, gap %.3g", n_steps, gap)


def make_matrix(estimator: Any, place: Place, x: Array) -> tuple[Kernel, KernelMatrix]:
    """Make the kernel of these rows and its matrix, after the checks that need the rows."""
    is_matrix = is_precomputed(estimator.kernel)
    if is_matrix:
        check_symmetric(place, x)
    n_bytes = 16 * x.shape[0]
    check_memory(n_bytes, estimator.cache_size, "a pair of kernel rows", "Raise it, or fit fewer rows.")
    gamma = _factor(estimator.kernel, estimator.gamma, place, x)
    kernel = as_kernel(estimator.kernel, gamma=gamma, degree=estimator.degree, coef0=float(estimator.coef0))
    return kernel, KernelMatrix(place, x, None if is_matrix else kernel.gram)


def _factor(kernel: object, gamma: Any, place: Place, x: Array) -> float:
    """Return gamma as a number; for "scale" the host waits for the variance once."""
    if gamma == "auto":
        return 1.0 / int(x.shape[1])
    if gamma != "scale":
        return float(gamma)
    if not isinstance(kernel, str) or kernel in ("linear", "precomputed"):
        return 1.0  # of no use to the kernel at hand
    wide = place.xp.astype(x, accumulator_dtype(place), copy=False)
    return float(resolve_gamma(place.xp, wide, gamma))


def check_symmetric(place: Place, matrix: Array) -> None:
    """Refuse a precomputed kernel that is not a symmetric square matrix; the host waits once."""
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
    """Refuse work that needs more memory than `cache_size` allows."""
    if n_bytes > cache_size * (1 << 20):
        raise MemoryBudgetError(
            f"{what} takes {n_bytes / (1 << 20):.0f} MB; `cache_size` allows {cache_size:g} MB. {remedy}"
        )


def is_precomputed(kernel: object) -> bool:
    """Whether rows are kernel values already."""
    return kernel == "precomputed" or isinstance(kernel, Precomputed)


def class_factors(class_weight: dict[Any, float] | str | None, classes: Any, codes: Any, weight: Any) -> Any:
    """Return the factor of C of each class, on the host.

    "balanced" is the total weight over the number of classes and the weight of the class.
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
