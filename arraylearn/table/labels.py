"""Class labels of any kind to codes 0, 1, ... and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import DataConversionWarning

from arraylearn._typing import HostArray
from arraylearn.backend.errors import warn_caller
from arraylearn.backend.namespace import is_array, to_host
from arraylearn.table.categories import encode_objects, is_missing_object
from arraylearn.table.frames import as_frame, series_to_host
from arraylearn.table.schema import MISSING_CODE

__all__ = ["DeclaredLabels", "Labels", "encode_labels", "encode_with"]


# Integer labels are counted in a table while their range is at most this, or four times their number.
_SHORT_RANGE = 1 << 16


class Labels(NamedTuple):
    """Encoded class labels, on the host."""

    codes: HostArray  # (n,) int64, the position in `classes`
    classes: HostArray  # (k,) sorted; those of `DeclaredLabels` in their order


class DeclaredLabels(np.ndarray[Any, Any]):
    """Labels of a file that declares its classes: their order decides between classes that are equally good.

    Categoricals of data frames are no such labels: scikit-learn's metrics take classes to be sorted.
    """

    domain: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, values: HostArray, domain: tuple[Any, ...] | None) -> DeclaredLabels:
        """Make labels of an array of objects (n,), all of them in `domain`."""
        made = np.asarray(values, dtype=object).view(cls)
        made.domain = domain
        return made

    def __array_finalize__(self, base: Any) -> None:
        """Keep the domain in parts of the rows."""
        self.domain = getattr(base, "domain", None)

    def __reduce__(self) -> Any:
        """Return how a worker process makes them again."""
        return DeclaredLabels.of, (np.asarray(self), self.domain)


def encode_labels(y: Any) -> Labels:
    """Encode class labels.

    Parameters
    ----------
    y : array-like (n,)
        Strings, integers, booleans or floats with integral values: a list, an array of any library, a series
        of a data frame library, a categorical.

    Returns
    -------
    Labels
        ``classes[codes]`` are the labels. Both live on the host; integer labels that are codes already are
        not copied.

    Examples
    --------
    >>> from arraylearn.table import encode_labels
    >>> labels = encode_labels(["no", "yes", "yes"])
    >>> labels.codes, labels.classes
    (array([0, 1, 1]), array(['no', 'yes'], dtype='<U3'))
    """
    values = _labels_on_host(y)
    if values.dtype.kind == "O":
        values = _unwrap_objects(values)
    kind = values.dtype.kind
    if kind == "f":
        _check_floats(values)
    if kind in "biuf":
        return _encode_numbers(values)
    if kind in "UTSO":
        return _encode_text(values)
    if kind == "c":
        raise ValueError("Complex data not supported: `y` must hold class labels.")
    raise ValueError(f"Unknown label type: {values.dtype}. `y` must hold strings, integers or booleans.")


def encode_with(y: Any, classes: HostArray) -> HostArray:
    """Encode class labels by known classes.

    Parameters
    ----------
    y : array-like (n,)
        Labels as in `encode_labels`.
    classes : array (k,)
        The sorted classes of `encode_labels`.

    Returns
    -------
    int64 array (n,)
        Positions in `classes`. A label that is not there raises ValueError.

    Examples
    --------
    >>> from arraylearn.table import encode_labels, encode_with
    >>> encode_with(["yes", "no"], encode_labels(["no", "yes"]).classes)
    array([1, 0])
    """
    labels = encode_labels(y)
    known = np.asarray(classes).tolist()
    position = encode_objects(labels.classes.tolist(), tuple(known), "`y`")
    is_unknown = position == MISSING_CODE
    if np.any(is_unknown):
        unknown = labels.classes[is_unknown].tolist()
        raise ValueError(
            f"`y` holds labels that are not among the classes {_shown(known)}: {_shown(unknown)}. "
            "Fit on all classes, or drop these rows."
        )
    return position.astype(np.int64).take(labels.codes)


def _shown(values: list[Any]) -> str:
    return repr(values) if len(values) <= 10 else f"[{', '.join(map(repr, values[:10]))}, ...]"


def _labels_on_host(y: Any) -> HostArray:
    """Return labels as a one-dimensional NumPy array."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    if hasattr(y, "nnz"):
        raise TypeError(
            "`y` is a sparse container; pass the labels as a dense 1d array: y.toarray().ravel()."
        )
    if isinstance(y, np.ndarray):
        values = y
    elif is_array(y):
        values = to_host(y)
    elif (frame := as_frame(y)) is not None:
        if hasattr(frame, "columns") and frame.shape[1] == 1:
            _warn_column()
            frame = frame.get_column(frame.columns[0])
        values = frame.to_numpy() if hasattr(frame, "columns") else series_to_host(frame)
    else:
        values = _from_sequence(y)
    if values.ndim == 2 and values.shape[1] == 1:
        _warn_column()
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if values.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s) (shape=(0,)) while a minimum of 1 is required.")
    return values


def _from_sequence(y: Any) -> HostArray:
    values = np.asarray(y)
    if values.dtype.kind == "U" and isinstance(y, list | tuple) and not all(isinstance(v, str) for v in y):
        return np.asarray(y, dtype=object)  # NumPy would turn numbers beside text into text
    return values


def _warn_column() -> None:
    warn_caller(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
        "(n_samples, ), for example using ravel().",
        DataConversionWarning,
    )


def _check_floats(values: HostArray) -> None:
    if np.isnan(values).any():
        raise ValueError("Input y contains NaN.")
    if np.isinf(values).any():
        raise ValueError(f"Input y contains infinity or a value too large for {values.dtype!r}.")
    if np.any(np.trunc(values) != values):
        raise ValueError(
            "Unknown label type: continuous. Maybe you are trying to fit a classifier, which expects "
            "discrete classes on a regression target with continuous values."
        )


def _unwrap_objects(values: HostArray) -> HostArray:
    """Turn labels kept as Python objects into an array of numbers, or leave them if they are all text."""
    labels = values.tolist()
    types = set(map(type, labels))
    if all(issubclass(kind, str) for kind in types):
        return values
    if any(is_missing_object(label) for label in labels):
        raise ValueError("Input y contains NaN.")
    if all(issubclass(kind, int | float | np.number | np.bool_) for kind in types):
        return np.asarray(labels)
    names = ", ".join(sorted(kind.__name__ for kind in types))
    raise ValueError(
        f"Unknown label type: `y` must hold labels of one kind (strings, integers or booleans); got {names}."
    )


def _encode_numbers(values: HostArray) -> Labels:
    """Encode booleans, integers, and floats that are whole numbers."""
    low, high = int(values.min()), int(values.max())
    is_exact = values.dtype.kind != "f" or max(abs(low), abs(high)) < 2**53
    integers = values.astype(np.int64) if is_exact and values.dtype.kind in "bf" else values
    if is_exact and high - low < max(_SHORT_RANGE, 4 * values.shape[0]):
        codes, classes = _count(integers, low, high)
    else:
        classes, codes = np.unique(integers, return_inverse=True)
    return Labels(codes.astype(np.int64, copy=False), classes.astype(values.dtype, copy=False))


def _count(values: HostArray, low: int, high: int) -> tuple[HostArray, HostArray]:
    """Return codes and the values that occur, for integers of a short range."""
    shifted = values if low == 0 else np.subtract(values, low, dtype=np.int64, casting="unsafe")
    counts = np.bincount(shifted, minlength=high - low + 1)
    cells = np.flatnonzero(counts)
    if cells.shape[0] == counts.shape[0]:
        return shifted.astype(np.int64, copy=False), cells + low
    table = np.empty(counts.shape[0], dtype=np.int64)
    table[cells] = np.arange(cells.shape[0])
    return table.take(shifted), cells + low


def _encode_text(values: HostArray) -> Labels:
    labels = values.tolist()
    domain = getattr(values, "domain", None)
    present = set(labels)
    classes = sorted(present) if domain is None else [value for value in domain if value in present]
    code_of = {label: code for code, label in enumerate(classes)}
    codes = np.fromiter(map(code_of.__getitem__, labels), dtype=np.int64, count=len(labels))
    return Labels(codes, np.asarray(classes, dtype=values.dtype))
