"""Kernels and their gram matrices: linear, polynomial, gaussian, sigmoid, precomputed, custom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from arraylearn._typing import Array
from arraylearn.backend.memory import with_smaller_chunks
from arraylearn.backend.namespace import as_float, bring, move
from arraylearn.backend.selector import find_places
from arraylearn.checks import refuse
from arraylearn.kernels.objects import (
    KERNELS,
    Custom,
    Gaussian,
    Kernel,
    Linear,
    Polynomial,
    Precomputed,
    Product,
    Scaled,
    Sigmoid,
    Sum,
    as_kernel,
    resolve_gamma,
)

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
    "gram",
    "resolve_gamma",
]


@with_smaller_chunks
def gram(
    X: Any,
    Y: Any = None,
    kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
    *,
    gamma: float | Array | Literal["scale", "auto"] | None = None,
    width: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
) -> Array:
    r"""Gram matrix: the kernel's value for every pair of rows.

    ============ ==============================================================================
    linear       :math:`\langle x, z \rangle`
    polynomial   :math:`(\gamma \langle x, z \rangle + c)^p`
    gaussian     :math:`\exp(-\gamma \lVert x - z \rVert^2) = \exp(-\lVert x - z \rVert^2 / w)`
    sigmoid      :math:`\tanh(\gamma \langle x, z \rangle + c)`
    ============ ==============================================================================

    Parameters
    ----------
    X : array (..., n, d)
        Rows; leading axes are separate problems. Integers become floats.
    Y : array (..., m, d), optional
        Other rows, brought to the place and dtype of `X`; default: those of `X`.
    kernel : str, Kernel or callable
        See `as_kernel`. "precomputed" returns `X`.
    gamma : float, array (...), "scale" or "auto", optional
        :math:`\gamma`; see `resolve_gamma`. Default: "scale", as in `SVC`; "auto" is the default of
        scikit-learn's `pairwise_kernels`, whose `coef0` is 1.
    width : float, optional
        :math:`w = 1 / \gamma` of the gaussian kernel, instead of `gamma`.
    degree : int
        :math:`p`.
    coef0 : float
        :math:`c`.

    Returns
    -------
    array (..., n, m)
        Of the library, device and float dtype of `X`. Gaussian values lie between 0 and 1; without `Y`
        their diagonal is exactly 1.

    References
    ----------
    B. Schölkopf, A. J. Smola, Learning with Kernels, 2002.

    Examples
    --------
    >>> import arraylearn as al
    >>> al.kernels.gram([[0.0, 0.0], [1.0, 2.0]], kernel="poly", gamma=1.0, degree=2, coef0=1.0)
    array([[ 1.,  1.],
           [ 1., 36.]])
    >>> al.kernels.gram([[0.0], [2.0]], width=4.0).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """
    home, place = find_places(X, Y)
    x = as_float(X, place)
    z = None if Y is None or Y is X else bring(Y, place, x.dtype)
    _check_rows(x, z, is_precomputed=kernel == "precomputed" or isinstance(kernel, Precomputed))
    if width is not None:
        if kernel not in ("rbf", "gaussian") or gamma is not None:
            raise refuse("width", "is for the gaussian kernel, and instead of `gamma`", width)
        kernel = Gaussian(width=width)
    if gamma is None:
        has_none = not isinstance(kernel, str) or kernel in ("linear", "precomputed")
        gamma = 1.0 if has_none else "scale"
    factor = resolve_gamma(place.xp, x, gamma)
    chosen = as_kernel(kernel, gamma=factor, degree=degree, coef0=coef0)
    return move(chosen.gram(place.xp, x, z), home)


def _check_rows(x: Array, z: Array | None, *, is_precomputed: bool) -> None:
    """Raise unless both are tables of rows with as many columns; a precomputed kernel has one table only."""
    for name, value in (("X", x), ("Y", z)):
        if value is not None and value.ndim < 2:
            raise refuse(name, "must have the axes (..., row, column)", f"an array of {value.ndim} axes")
    if is_precomputed and z is not None:
        raise refuse("Y", "must be None for a precomputed kernel", "an array")
    if z is not None and z.shape[-1] != x.shape[-1]:
        raise refuse("Y", f"must have as many columns as `X` ({x.shape[-1]})", z.shape[-1])
