r"""The dual of every support vector machine here: a concave quadratic over a box with one equality.

All problems are written in signed multipliers, so that one solver serves them all:

.. math:: \max_\beta\; p^T\beta - \tfrac12 \beta^T K \beta
          \quad\text{with}\quad l_i \le \beta_i \le u_i,\; \textstyle\sum_i \beta_i = s

- classification: :math:`\beta_i = y_i\alpha_i`, :math:`p = y`, :math:`s = 0`, box :math:`[0, C_i]` or
  :math:`[-C_i, 0]` by the sign of :math:`y_i`;
- one class, nu form: :math:`p = 0`, box :math:`[0, 1]`, :math:`s = \nu n`;
- data description: :math:`p = \tfrac12\operatorname{diag}K`, box :math:`[0, C]`, :math:`s = 1`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arraylearn._typing import Array, Namespace

__all__ = [
    "DualProblem",
    "DualSolution",
    "classification_problem",
    "extremes",
    "find_offset",
    "objective",
    "refuse_nan",
]


class DualProblem(NamedTuple):
    """A dual problem and a feasible point of it, in the accumulator's dtype."""

    linear: Array  # (..., n): p
    lower: Array  # (..., n)
    upper: Array  # (..., n)
    start: Array  # (..., n): sums to s, exactly on a bound where it touches one


class DualSolution(NamedTuple):
    """Where a solver stopped."""

    beta: Array  # (..., n): exactly on a bound where it touches one
    gradient: Array  # (..., n): p - K beta
    gap: float  # largest violation of the optimality conditions, from a float64 gradient
    n_iter: int
    is_converged: bool
    is_stalled: bool = False  # whether rounding kept the gap above the tolerance


def classification_problem(xp: Namespace, sign: Array, bound: Array) -> DualProblem:
    """State soft-margin classification.

    Parameters
    ----------
    sign : float array (..., n)
        +1 or -1 for each row; 0 for a row that takes no part.
    bound : float array (..., n)
        The C of each row; ``inf`` for a hard margin.
    """
    zero = xp.zeros_like(sign)
    lower = xp.where(sign < 0, -bound, zero)
    upper = xp.where(sign > 0, bound, zero)
    return DualProblem(sign, lower, upper, zero)


def extremes(xp: Namespace, beta: Array, gradient: Array, problem: DualProblem) -> tuple[Array, Array]:
    """Return the largest gradient of what may rise and the smallest of what may fall.

    Their difference is LIBSVM's stopping quantity: a point is optimal exactly when it is not positive.
    """
    highest = xp.max(xp.where(beta < problem.upper, gradient, -math.inf), axis=-1)
    lowest = xp.min(xp.where(beta > problem.lower, gradient, math.inf), axis=-1)
    return highest, lowest


def objective(xp: Namespace, beta: Array, gradient: Array, problem: DualProblem) -> Array:
    r"""Return :math:`p^T\beta - \tfrac12\beta^T K\beta`, from the gradient :math:`p - K\beta`."""
    return 0.5 * xp.sum(beta * (problem.linear + gradient), axis=-1)


def find_offset(xp: Namespace, beta: Array, gradient: Array, problem: DualProblem) -> Array:
    """Return the multiplier of the equality, as LIBSVM does.

    The mean gradient of the free rows; where none is free, the middle of the interval the others leave.
    """
    is_free = (beta > problem.lower) & (beta < problem.upper)
    n_free = xp.sum(xp.astype(is_free, beta.dtype), axis=-1)
    mean = xp.sum(xp.where(is_free, gradient, 0.0), axis=-1) / xp.where(n_free > 0, n_free, 1.0)
    highest, lowest = extremes(xp, beta, gradient, problem)
    # one side can be empty where every row is at its bound: then any value on the other side will do
    highest, lowest = (
        xp.where(xp.isfinite(highest), highest, lowest),
        xp.where(xp.isfinite(lowest), lowest, highest),
    )
    return xp.where(n_free > 0, mean, 0.5 * (highest + lowest))


def refuse_nan(*numbers: float) -> None:
    """Raise where a kernel that gave NaN or infinity has spoilt the numbers of a solve."""
    if any(math.isnan(number) for number in numbers):
        raise ValueError(
            "the kernel gave NaN or infinity for some pair of training rows. Scale the columns of `X`, or "
            "check the kernel's parameters."
        )
