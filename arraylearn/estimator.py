"""The door every estimator has: data in, results home, errors before anything changes.

An estimator validates, encodes, calls a kernel and keeps its ``model_``. What all of them share is here:
where to compute, how data and labels come in, how results go back, and what a failed fit leaves behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from arraylearn._typing import Array
from arraylearn.backend.memory import with_smaller_chunks
from arraylearn.backend.namespace import (
    Place,
    from_host,
    is_array,
    locate,
    move,
    read_flags,
    to_host,
)
from arraylearn.backend.random import RandomState
from arraylearn.backend.selector import choose_place
from arraylearn.table import (
    Labels,
    Schema,
    Table,
    holds_bad_numbers,
    learn_schema,
    learn_schema_and_labels,
    open_frame,
    read_table,
)

__all__ = [
    "ArrayClassifier",
    "ArrayEstimator",
    "Batch",
    "SecondTry",
    "cast_model",
    "move_model",
]

Model = TypeVar("Model")

# A fit that fails leaves nothing behind, a prediction changes nothing: all of them may be repeated.
_COMPUTING = ("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function")


class Batch(NamedTuple):
    """Rows that came through the door."""

    table: Table
    place: Place  # where to compute
    home: Place  # where the results go
    is_bad: Array  # 0-d bool at `place`: a number that may not be there; read it with the other results

    @property
    def float_dtype(self) -> Any:
        """The float dtype that follows the input."""
        return self.table.numeric.dtype


class SecondTry(NamedTuple):
    """What takes the place of a result that holds in the common case only."""

    is_needed: Array  # 0-d bool at the place, read in the one wait that a prediction has
    compute: Callable[[], Array]


class ArrayEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: the door for rows, and nothing of any method of learning."""

    # Whether NaN and missing categories are part of the method; an estimator without overrides this.
    _accepts_missing: ClassVar[bool] = True
    # Whether the method adds up squares, which a very large number makes infinite.
    _sums_squares: ClassVar[bool] = False
    # Whether nominal columns are part of the method.
    _accepts_nominal: ClassVar[bool] = True

    backend: str | None
    schema_: Schema
    model_: Any
    n_features_in_: int

    def __init_subclass__(cls, **options: Any) -> None:
        """Give every method that computes a second try with smaller chunks when memory runs out."""
        for name in _COMPUTING:
            method = cls.__dict__.get(name)
            if isinstance(method, FunctionType):  # not a descriptor that decides whether there is a method
                setattr(cls, name, with_smaller_chunks(method))
        super().__init_subclass__(**options)

    # ---- data in

    def _open_rows(self, X: Any) -> Batch:
        """Read unlabelled training rows and learn their schema."""
        self._note_columns(X, reset=True)
        X = open_frame(X)
        self.schema_ = learn_schema(X, "from_dtype")
        self._refuse_nominal()
        return self._read(X)

    def _open(self, X: Any) -> Batch:
        """Read rows to predict, in the schema of the training rows."""
        if "schema_" not in self.__dict__:
            check_is_fitted(self)
        self._note_columns(X, reset=False)
        return self._read(X)

    def _note_columns(self, X: Any, *, reset: bool) -> None:
        """Take down number and names of the columns, or check them; plain arrays go a short way."""
        if not is_array(X) or (not reset and "feature_names_in_" in self.__dict__):
            validate_data(self, X, skip_check_array=True, reset=reset)
        elif X.ndim != 2:
            return  # which the reader of the table refuses
        elif reset:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )

    def _read(self, X: Any) -> Batch:
        home = locate(X)
        place = choose_place(home, self.backend)
        table = read_table(X, self.schema_, place)
        limit = _largest_square(place, table.numeric.dtype) if self._sums_squares else math.inf
        is_bad = holds_bad_numbers(place, table.numeric, nan_is_bad=not self._accepts_missing, limit=limit)
        if "cuda" not in str(place.device).lower():
            # nothing waits here, and kernels are spared what would make them warn; elsewhere the flag is read
            # later, together with the results
            self._refuse_bad(bool(is_bad))
        return Batch(table, place, home, is_bad)

    def _refuse_nominal(self) -> None:
        if self._accepts_nominal or not self.schema_.nominal_idx:
            return
        named = ", ".join(repr(self.schema_.columns[j].name) for j in self.schema_.nominal_idx[:5])
        raise ValueError(
            f"`X` must have numeric columns only; {type(self).__name__} got nominal ones: {named}. "
            "Encode them as numbers first."
        )

    def _refuse_bad(self, is_bad: bool) -> None:
        """Raise for numbers that may not be there; call it with the flag once it is on the host."""
        if not is_bad:
            return
        what = "infinity" if self._accepts_missing else "NaN, infinity"
        missing = " NaN stands for a missing value." if self._accepts_missing else ""
        raise ValueError(
            f"Input X contains {what} or a value too large for its dtype; {type(self).__name__} needs finite "
            f"numbers.{missing} Drop, clip or impute the rows in question."
        )

    # ---- results home

    def _deliver(self, values: Array, batch: Batch, second: SecondTry | None = None) -> Array:
        """Check the input's flag (the one wait of a prediction) and take results home."""
        flags = [batch.is_bad] if second is None else [batch.is_bad, second.is_needed]
        is_bad, *is_needed = read_flags(batch.place, *flags)
        self._refuse_bad(is_bad)
        return move(second.compute() if second is not None and is_needed[0] else values, batch.home)

    def _model_at(self, place: Place, dtype: Any = None) -> Any:
        """Return the fitted model where a prediction computes; copies made for that are kept.

        With `dtype`, the floats of the model come in that dtype.
        """
        copies = self.__dict__.get("_copies", {})
        key = (place.xp, str(place.device), dtype)
        kept = copies.get(key)
        if kept is not None and kept[0] is self.model_:
            return kept[1]
        made = move_model(self.model_, place)
        if dtype is not None:
            made = cast_model(made, place, dtype)
        copies[key] = (self.model_, made)
        return made

    def permutation_importance(
        self,
        X: Any,
        y: Any,
        *,
        n_repeats: int = 5,
        sample_weight: Any = None,
        random_state: RandomState = None,
    ) -> Any:
        """Judge each column by the accuracy that is lost when it is shuffled: `al.permutation_importance`."""
        from arraylearn.explain.permutation import permutation_importance

        return permutation_importance(
            self, X, y, n_repeats=n_repeats, sample_weight=sample_weight, random_state=random_state
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_copies", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._copies: dict[Any, Any] = {}

    # ---- all or nothing

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Forget the old fit; a fit that fails leaves the estimator unfitted."""
        self._forget()
        self._copies = {}  # filled by predictions, which leave the attributes themselves as they are
        try:
            yield
        except BaseException:
            self._forget()
            raise

    @contextmanager
    def _updating(self) -> Iterator[None]:
        """Keep what is known if an update fails."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _forget(self) -> None:
        fitted = [name for name in self.__dict__ if name.endswith("_") and not name.startswith("_")]
        for name in [*fitted, "_copies"]:
            self.__dict__.pop(name, None)

    # ---- scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._accepts_missing
        tags.input_tags.categorical = self._accepts_nominal
        tags.input_tags.string = self._accepts_nominal
        tags.array_api_support = True
        return tags


class ArrayClassifier(ClassifierMixin, ArrayEstimator):  # type: ignore[misc]
    """Base of the classifiers: labels come in with the rows, and go out."""

    classes_: Any

    def _open_fit(self, X: Any, y: Any) -> tuple[Batch, Labels]:
        """Read the training rows and learn their schema and classes."""
        self._note_columns(X, reset=True)
        X = open_frame(X)
        nominal = getattr(self, "categorical_features", "from_dtype")
        self.schema_, labels = learn_schema_and_labels(X, y, nominal)
        self._refuse_nominal()
        self.classes_ = labels.classes
        batch = self._read(X)
        if labels.codes.shape[0] != batch.table.n_rows:
            raise ValueError(
                "`X` and `y` must have as many rows; "
                f"found input variables with inconsistent numbers of samples: "
                f"{[batch.table.n_rows, labels.codes.shape[0]]}."
            )
        return batch, labels

    def _deliver_labels(self, codes: Array, batch: Batch, second: SecondTry | None = None) -> Array:
        """Turn class codes into labels at home; labels that no array library holds come as NumPy arrays."""
        xp = batch.place.xp
        if batch.home.library == "numpy" or self.classes_.dtype.kind not in "biuf":
            # the flags travel with the codes, so that one copy to the host answers all questions
            if second is not None:
                codes = xp.where(second.is_needed, -2, codes)
            host = to_host(xp.where(batch.is_bad, -1, codes))
            flag = int(host[0]) if host.shape[0] else 0
            self._refuse_bad(flag == -1)
            if second is not None and flag == -2:
                host = to_host(second.compute())
            return self.classes_.take(host)
        flags = [batch.is_bad] if second is None else [batch.is_bad, second.is_needed]
        is_bad, *is_needed = read_flags(batch.place, *flags)
        self._refuse_bad(is_bad)
        if second is not None and is_needed[0]:
            codes = second.compute()
        labels = from_host(self.classes_, batch.place)
        return move(xp.take(labels, codes, axis=0), batch.home)


def _largest_square(place: Place, dtype: Any) -> float:
    """Return a number whose square may be added up many times; float32 is added up in float64."""
    largest = float(place.xp.finfo(dtype).max)
    return math.sqrt(largest) * (1e-4 if largest > 1e300 else 0.1)


def move_model(model: Model, place: Place) -> Model:
    """Bring every array of a (nested) named tuple to `place`; anything else stays as it is."""
    if is_array(model):
        return cast(Model, move(model, place))
    if isinstance(model, tuple):
        parts = [move_model(part, place) for part in model]
        made = type(model)(*parts) if hasattr(model, "_fields") else tuple(parts)
        return cast(Model, made)
    return model


def cast_model(model: Model, place: Place, dtype: Any) -> Model:
    """Bring every array of floats of a (nested) named tuple to `dtype`; anything else stays as it is."""
    if is_array(model):
        is_float = place.xp.isdtype(cast(Array, model).dtype, "real floating")
        return cast(Model, place.xp.astype(model, dtype, copy=False)) if is_float else model
    if isinstance(model, tuple):
        parts = [cast_model(part, place, dtype) for part in model]
        made = type(model)(*parts) if hasattr(model, "_fields") else tuple(parts)
        return cast(Model, made)
    return model
