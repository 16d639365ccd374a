r"""The dual of all support vector machines here: a concave quadratic over a box with one equality.

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
from typing import Any, NamedTuple

from arraylearn._typing import Array, Namespace
from arraylearn.backend.namespace import Place, accumulator_dtype, from_host

__all__ = [
    "DualProblem",
    "DualSolution",
    "classification_at",
    "classification_problem",
    "extremes",
    "find_offset",
    "objective",
    "refuse_nan",
]

Host = Any  # a NumPy array


class DualProblem(NamedTuple):
    """A dual problem with a feasible point, in the accumulator's dtype."""

    linear: Array  # (..., n): p
    lower: Array  # (..., n): l
    upper: Array  # (..., n): u
    start: Array  # (..., n): sums to s, exactly on a bound where it touches one


class DualSolution(NamedTuple):
    """The point at which a solver stopped, and why it did."""

    beta: Array  # (..., n): exactly on a bound where it touches one
    gradient: Array  # (..., n): p - K beta
    gap: float  # largest violation of the optimality conditions, from a float64 gradient
    n_iter: int  # steps
    is_converged: bool  # whether the gap is within the tolerance
    is_stalled: bool = False  # whether rounding kept the gap above the tolerance


def classification_problem(xp: Namespace, sign: Array, bound: Array) -> DualProblem:
    """State soft-margin classification.

    Parameters
    ----------
    sign : float array (..., n)
        +1 or -1 for each row; 0 for a row that is left out.
    bound : float array (..., n)
        The C of each row; ``inf`` for a hard margin.
    """
    zero = xp.zeros_like(sign)
    lower = xp.where(sign < 0, -bound, zero)
    upper = xp.where(sign > 0, bound, zero)
    return DualProblem(sign, lower, upper, zero)


def classification_at(place: Place, sign: Host, bound: Host, start: Host | None = None) -> DualProblem:
    """State soft-margin classification from arrays of the host; the start is 0 where none is given."""
    dtype = accumulator_dtype(place)
    signs, bounds = (from_host(values, place, dtype) for values in (sign, bound))
    problem = classification_problem(place.xp, signs, bounds)
    return problem if start is None else problem._replace(start=from_host(start, place, dtype))


def extremes(xp: Namespace, beta: Array, gradient: Array, problem: DualProblem) -> tuple[Array, Array]:
    """Return the largest gradient of multipliers that may rise and the smallest of those that may fall.

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

    The mean gradient of the free rows; where none is free, the middle of the interval between the extremes.
    """
    is_free = (beta > problem.lower) & (beta < problem.upper)
    n_free = xp.sum(xp.astype(is_free, beta.dtype), axis=-1)
    mean = xp.sum(xp.where(is_free, gradient, 0.0), axis=-1) / xp.where(n_free > 0, n_free, 1.0)
    highest, lowest = extremes(xp, beta, gradient, problem)
    # one side is empty where no multiplier may rise, or none may fall: then the other side is the offset
    highest, lowest = (
        xp.where(xp.isfinite(highest), highest, lowest),
        xp.where(xp.isfinite(lowest), lowest, highest),
    )
    return xp.where(n_free > 0, mean, 0.5 * (highest + lowest))


def refuse_nan(*numbers: float) -> None:
    """Raise if one of the numbers is NaN, which is what kernel values that are not finite lead to."""
    if any(math.isnan(number) for number in numbers):
        raise ValueError(
            "the kernel gave NaN or infinity for some pair of training rows. Scale the columns of `X`, or "
            "check the kernel's parameters."
        )
