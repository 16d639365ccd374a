"""Kernels as objects: small frozen values that make gram matrices and can be added, multiplied and scaled.

Each has ``gram(xp, x, z)``, the matrix (..., n, m) of all pairs of rows of x (..., n, d) and z (..., m, d),
where ``z=None`` means x itself, and ``diagonal(xp, x)``, the values (..., n) of each row with itself.
Sums, products and positive multiples of kernels are kernels again (Schölkopf and Smola, Learning with
Kernels, 2002, chapter 13).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from itertools import pairwise
from typing import Any, Literal

import array_api_compat

from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.gram import gaussian_gram, integer_power, polynomial_gram
from arraylearn.checks import check_integer, check_number, is_number, refuse

__all__ = [
    "KERNELS",
    "Custom",
    "Gaussian",
    "Kernel",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Product",
    "Scaled",
    "Sigmoid",
    "Sum",
    "as_kernel",
    "resolve_gamma",
]

KERNELS = ("linear", "poly", "polynomial", "rbf", "gaussian", "sigmoid", "precomputed")

# Rows of a block of which a custom kernel keeps only the diagonal.
_DIAGONAL_BLOCK = 64


class Kernel(ABC):
    """Base of the kernels, which gives them arithmetic: sums, products and positive multiples."""

    @abstractmethod
    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the values (..., n, m) of all pairs of rows; ``z=None`` means x itself."""

    @abstractmethod
    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the value (..., n) of each row with itself."""

    def __add__(self, other: object) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, float(other)) if is_number(other) else NotImplemented

    __rmul__ = __mul__


@dataclass(frozen=True)
class Linear(Kernel):
    r"""The inner product :math:`\langle x, z \rangle`.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.kernels.gram([[1.0, 2.0]], [[3.0, 4.0]], kernel=al.kernels.Linear())
    array([[11.]])
    """

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the inner products."""
        return x @ xp.matrix_transpose(x if z is None else z)

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the squared norms."""
        return xp.vecdot(x, x)


@dataclass(frozen=True)
class Polynomial(Kernel):
    r"""The polynomial kernel :math:`(\gamma \langle x, z \rangle + c)^p`.

    Parameters
    ----------
    degree : int
        The power :math:`p`, at least 0.
    coef0 : float
        The constant :math:`c`; a kernel in the strict sense (positive semidefinite) for :math:`c \ge 0`.
    gamma : float or array (...)
        The factor :math:`\gamma`; an array is one factor per leading axis of the data.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.kernels.gram([[1.0, 2.0]], [[3.0, 4.0]], kernel=al.kernels.Polynomial(degree=2, coef0=1.0))
    array([[144.]])
    """

    degree: int = 3
    coef0: float = 0.0
    gamma: float | Array = 1.0

    def __post_init__(self) -> None:
        check_integer("degree", self.degree, 0)

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the powers of the shifted inner products."""
        return polynomial_gram(xp, x, z, _factor(xp, self.gamma, x), float(self.coef0), self.degree)

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the powers of the shifted squared norms."""
        base = xp.vecdot(x, x) * _per_row(_factor(xp, self.gamma, x)) + float(self.coef0)
        return integer_power(xp, base, self.degree)


@dataclass(frozen=True)
class Gaussian(Kernel):
    r"""The gaussian kernel :math:`\exp(-\gamma \lVert x - z \rVert^2) = \exp(-\lVert x - z \rVert^2 / c)`.

    Parameters
    ----------
    gamma : float or array (...), optional
        The factor :math:`\gamma`, not negative; an array is one factor per leading axis of the data.
    width : float, optional
        :math:`c = 1 / \gamma`, positive, instead of `gamma`; with a standard deviation :math:`\sigma`,
        :math:`c = 2 \sigma^2`.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.kernels.Gaussian(width=4.0)
    Gaussian(gamma=0.25)
    """

    gamma: float | Array | None = None
    width: InitVar[float | None] = None

    def __post_init__(self, width: float | None) -> None:
        if (self.gamma is None) == (width is None):
            raise ValueError("a gaussian kernel takes either `gamma` or `width`; got both or neither.")
        if width is not None:
            check_number("width", width, 0.0, closed="neither")
            object.__setattr__(self, "gamma", 1.0 / width)
        elif is_number(self.gamma):
            check_number("gamma", self.gamma, 0.0)

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the similarities, from 0 to 1; the diagonal is exactly 1 without `z`."""
        return gaussian_gram(xp, x, z, _factor(xp, self.gamma, x))

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return ones."""
        return xp.ones(x.shape[:-1], dtype=x.dtype, device=array_api_compat.device(x))


@dataclass(frozen=True)
class Sigmoid(Kernel):
    r"""The kernel :math:`\tanh(\gamma \langle x, z \rangle + c)`, not positive semidefinite in general.

    Parameters
    ----------
    gamma : float or array (...)
        The factor :math:`\gamma`; an array is one factor per leading axis of the data.
    coef0 : float
        The constant :math:`c`.
    """

    gamma: float | Array = 1.0
    coef0: float = 0.0

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the hyperbolic tangents of the shifted inner products."""
        rows = x * _per_row(_per_row(_factor(xp, self.gamma, x)))
        return xp.tanh(rows @ xp.matrix_transpose(x if z is None else z) + float(self.coef0))

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the hyperbolic tangents of the shifted squared norms."""
        return xp.tanh(xp.vecdot(x, x) * _per_row(_factor(xp, self.gamma, x)) + float(self.coef0))


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The data are the gram matrix: (n, n) to learn from, (m, n) for m new rows.

    It cannot be added to, multiplied with or scaled by others.
    """

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return `x`."""
        return x

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the diagonal of the square matrix `x`."""
        return xp.linalg.diagonal(x)


@dataclass(frozen=True)
class Custom(Kernel):
    """A kernel of the user's own.

    Parameters
    ----------
    function : callable
        ``function(x, z)`` takes rows (n, d) and (m, d) and returns their values (n, m), as arrays of the
        library that computes.

    Examples
    --------
    >>> import arraylearn as al
    >>> square = al.kernels.Custom(lambda x, z: (x @ z.T) ** 2)
    >>> al.kernels.gram([[1.0, 2.0]], [[3.0, 4.0]], kernel=square)
    array([[121.]])
    """

    function: Callable[[Any, Any], Any]

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the function's values for all pairs of rows."""
        other = x if z is None else z
        values = self.function(x, other)
        wanted = (x.shape[-2], other.shape[-2])
        if tuple(values.shape[-2:]) != wanted:
            raise ValueError(f"the kernel function must return {wanted} values; got {tuple(values.shape)}.")
        return xp.astype(values, x.dtype, copy=False)

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the diagonals of small blocks, so that no matrix (n, n) is computed."""
        n = x.shape[-2]
        bounds = [*range(0, n, _DIAGONAL_BLOCK), n]
        blocks = [self.gram(xp, x[..., start:stop, :]) for start, stop in pairwise(bounds)]
        return xp.concat([xp.linalg.diagonal(block) for block in blocks], axis=-1)


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels that are combined."""

    first: Kernel
    second: Kernel

    def __post_init__(self) -> None:
        if isinstance(self.first, Precomputed) or isinstance(self.second, Precomputed):
            raise ValueError(
                "a precomputed kernel cannot be combined with others: combine the matrices, then pass the "
                "result."
            )


@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two kernels, made by ``first + second``."""

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the sum of both matrices."""
        return self.first.gram(xp, x, z) + self.second.gram(xp, x, z)

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the sum of both diagonals."""
        return self.first.diagonal(xp, x) + self.second.diagonal(xp, x)


@dataclass(frozen=True)
class Product(_Pair):
    """The product of two kernels, value by value, made by ``first * second``."""

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the product of both matrices, value by value."""
        return self.first.gram(xp, x, z) * self.second.gram(xp, x, z)

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the product of both diagonals."""
        return self.first.diagonal(xp, x) * self.second.diagonal(xp, x)


@dataclass(frozen=True)
class Scaled(Kernel):
    """A kernel times a number that is not negative, made by ``factor * kernel``."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        check_number("factor", self.factor, 0.0)

    def gram(self, xp: Namespace, x: Array, z: Array | None = None) -> Array:
        """Return the scaled matrix."""
        return self.kernel.gram(xp, x, z) * self.factor

    def diagonal(self, xp: Namespace, x: Array) -> Array:
        """Return the scaled diagonal."""
        return self.kernel.diagonal(xp, x) * self.factor


def _factor(xp: Namespace, gamma: float | Array, x: Array) -> float | Array:
    """Return a number as a float, or an array in the dtype of the data."""
    return float(gamma) if is_number(gamma) else xp.astype(gamma, x.dtype, copy=False)


def _per_row(gamma: float | Array) -> float | Array:
    """Give an array of factors one more axis; return a number unchanged."""
    return gamma if isinstance(gamma, float) else gamma[..., None]


def as_kernel(
    kernel: str | Kernel | Callable[[Any, Any], Any],
    *,
    gamma: float | Array = 1.0,
    degree: int = 3,
    coef0: float = 0.0,
) -> Kernel:
    """Make a kernel object from a value of the parameter ``kernel=``.

    ``"linear"``, ``"poly"`` (or ``"polynomial"``), ``"rbf"`` (or ``"gaussian"``), ``"sigmoid"``,
    ``"precomputed"``, a kernel object (returned as it is), or a function of two tables of rows. `gamma` is a
    factor, see `resolve_gamma`; `degree` that of the polynomial kernel, `coef0` its constant, and that of the
    sigmoid kernel.

    >>> from arraylearn.kernels import as_kernel
    >>> as_kernel("poly", degree=2, coef0=1.0)
    Polynomial(degree=2, coef0=1.0, gamma=1.0)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if kernel == "linear":
        return Linear()
    if kernel in ("poly", "polynomial"):
        return Polynomial(degree, coef0, gamma)
    if kernel in ("rbf", "gaussian"):
        return Gaussian(gamma)
    if kernel == "sigmoid":
        return Sigmoid(gamma, coef0)
    if kernel == "precomputed":
        return Precomputed()
    if callable(kernel):
        return Custom(kernel)
    rule = f"must be one of {', '.join(map(repr, KERNELS))}, a kernel object or a callable"
    raise refuse("kernel", rule, repr(kernel))


def resolve_gamma(xp: Namespace, x: Array, gamma: float | Array | Literal["scale", "auto"]) -> float | Array:
    r"""Turn ``"scale"`` and ``"auto"`` into a factor for the training rows x (..., n, d), without a sync.

    .. math:: \gamma_\text{scale} = 1 / (d \operatorname{Var} x), \qquad \gamma_\text{auto} = 1 / d

    The variance is that of all entries; "scale" gives an array (...) on the device in the dtype of `x`, 1
    where all entries are equal, as in scikit-learn. A number or array is returned as it is.

    >>> import numpy as np
    >>> from arraylearn.kernels import resolve_gamma
    >>> float(resolve_gamma(np, np.asarray([[0.0, 2.0], [4.0, 2.0]]), "scale"))
    0.25
    """
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / x.shape[-1]
        if gamma != "scale":
            raise refuse("gamma", "must be 'scale', 'auto' or a number that is not negative", repr(gamma))
        variance = xp.var(x, axis=(-2, -1))
        return xp.where(variance > 0, 1.0 / (x.shape[-1] * xp.where(variance > 0, variance, 1.0)), 1.0)
    return float(gamma) if is_number(gamma) else gamma
