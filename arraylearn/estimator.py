"""The base of all estimators: reading rows and labels, returning results, fits that succeed or leave nothing.

An estimator checks its parameters, reads rows (`_open_fit`, `_open`), calls a kernel with the arrays of the
`Batch`, keeps its ``model_`` and returns results (`_deliver`, `_deliver_labels`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from arraylearn._typing import Array, Dtype, HostArray
from arraylearn.backend.dispatch import stated_work
from arraylearn.backend.memory import is_out_of_memory, with_smaller_chunks
from arraylearn.backend.namespace import (
    HOST,
    Place,
    from_host,
    is_array,
    is_on_host,
    locate,
    move,
    read_flags,
    to_host,
)
from arraylearn.backend.random import RandomState
from arraylearn.backend.selector import choose_place
from arraylearn.progress import Advance, show_progress
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
from arraylearn.table.rare import leave_out_rare
from arraylearn.table.subsets import take_rows
from arraylearn.weights import join_weights

__all__ = [
    "ArrayClassifier",
    "ArrayEstimator",
    "Batch",
    "Correction",
    "FitRows",
    "all_or_nothing",
    "cast_model",
    "check_same_length",
    "forget_fit",
    "move_model",
]

Model = TypeVar("Model")

# Methods that may be repeated: a fit that fails leaves nothing behind, a prediction changes nothing.
_COMPUTING = ("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function")


class Batch(NamedTuple):
    """Rows that were read and checked, and the place of computation."""

    table: Table
    place: Place  # where to compute
    home: Place  # where the results go
    is_bad: Array  # 0-d bool at `place`: some number is not allowed; the host reads it with the results

    @property
    def float_dtype(self) -> Dtype:
        """The float dtype that follows the input."""
        return self.table.numeric.dtype


class FitRows(NamedTuple):
    """Training rows of positive weight."""

    batch: Batch
    labels: Labels
    weights: HostArray | None  # (n,) positive; None: 1 each
    X: Any  # the rows as the user passed them
    y: Any


class Correction(NamedTuple):
    """How to correct a result that was computed for the common case, such as rows without missing values."""

    is_needed: Array  # 0-d bool at the place; the host reads it in the one sync of a prediction
    compute: Callable[[], Array]  # the result for all rows


class ArrayEstimator(BaseEstimator):
    """Base of the estimators: reading rows and returning results; nothing of any method of learning."""

    # Whether the method takes NaN and missing categories.
    _accepts_missing: ClassVar[bool] = True
    # Whether the method adds up squares, which a very large number makes infinite.
    _sums_squares: ClassVar[bool] = False
    # Whether the method takes nominal columns.
    _accepts_nominal: ClassVar[bool] = True
    # Whether infinity is a value beyond all others; else it is refused.
    _accepts_infinity: ClassVar[bool] = False

    backend: str | None
    verbose: Any  # an integer, for some learners also a callback
    schema_: Schema
    model_: Any
    n_features_in_: int

    def __init_subclass__(cls, **options: Any) -> None:
        """Let every method that computes be repeated with smaller chunks when memory runs out."""
        for name in _COMPUTING:
            method = cls.__dict__.get(name)
            if isinstance(method, FunctionType):  # not a descriptor such as `available_if`
                setattr(cls, name, _repeatable(method))
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
        """Record number and names of the columns (`reset`), or check them; scikit-learn reads data frames."""
        if not is_array(X) or (not reset and "feature_names_in_" in self.__dict__):
            validate_data(self, X, skip_check_array=True, reset=reset)
        elif X.ndim != 2:
            return  # `read_table` refuses it
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
        if self._accepts_infinity and (not is_on_host(place) or bool(is_bad)):
            table = table._replace(numeric=_bound_infinity(place, table.numeric))
            is_bad = place.xp.zeros_like(is_bad)
        if is_on_host(place):
            # reading the flag costs nothing here, and kernels need not deal with such numbers; on a device
            # it is read with the results
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
        """Raise if the flag of a batch, read on the host, is set."""
        if not is_bad:
            return
        what = "infinity" if self._accepts_missing else "NaN, infinity"
        missing = " NaN stands for a missing value." if self._accepts_missing else ""
        raise ValueError(
            f"Input X contains {what} or a value too large for its dtype; {type(self).__name__} needs finite "
            f"numbers.{missing} Drop, clip or impute the rows in question."
        )

    # ---- results home

    def _deliver(self, values: Array, batch: Batch, correction: Correction | None = None) -> Array:
        """Check the flags (the one sync of a prediction) and take results home."""
        return move(self._check_flags(values, batch, correction), batch.home)

    def _check_flags(self, values: Array, batch: Batch, correction: Correction | None) -> Array:
        """Raise for bad rows; return the values, or their correction if it is needed."""
        is_bad, *is_needed = read_flags(batch.place, *_flags(batch, correction))
        self._refuse_bad(is_bad)
        return correction.compute() if correction is not None and is_needed[0] else values

    def _model_at(self, place: Place, dtype: Dtype | None = None) -> Any:
        """Return the fitted model where a prediction computes; with `dtype`, its floats in that dtype."""

        def move_and_cast() -> Any:
            moved = move_model(self.model_, place)
            return moved if dtype is None else cast_model(moved, place, dtype)

        return self._prepared_at(place, ("model", dtype), move_and_cast)

    def _prepared_at(self, place: Place, form: Hashable, make: Callable[[], Any]) -> Any:
        """Return a form of the fitted model for predictions (moved, cast, packed), made once for each place.

        It is cached together with the model it was made from, and made anew for another model, so that it is
        never stale. It is not part of the fitted state: pickles, copies and model files do not contain it.
        """
        cache = self.__dict__.setdefault("_cache", {})
        key = (form, place.xp, str(place.device))
        kept = cache.get(key)
        if kept is None or kept[0] is not self.model_:
            kept = cache[key] = (self.model_, make())
        return kept[1]

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
        state.pop("_cache", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._cache: dict[Any, Any] = {}

    if not TYPE_CHECKING:  # for mypy an unknown name stays an error

        def __getattr__(self, name: str) -> Any:
            """Raise for a missing attribute: `NotFittedError` if `fit` would set it."""
            is_made = name.endswith("_") and not name.startswith("_") and hasattr(type(self), name)
            if (is_made or name == "model_") and not _is_fitted(self):
                raise NotFittedError(
                    f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate "
                    f"arguments before using '{name}'."
                )
            # look it up again, so that an error raised inside a property is shown
            return object.__getattribute__(self, name)

    def _progress(
        self, label: str, total: int | None, measure: str = "loss"
    ) -> AbstractContextManager[Advance]:
        """Return a bar where `verbose` asks for one."""
        if self.verbose:
            return show_progress(label, total, self.verbose, measure=measure)
        return nullcontext(lambda measured=None: None)

    # ---- all or nothing

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Drop the old fit; a fit that fails leaves the estimator unfitted."""
        with all_or_nothing(self._forget):
            self._cache = {}  # here, because predictions must add no attribute
            yield

    @contextmanager
    def _updating(self) -> Iterator[None]:
        """Restore the estimator if an update fails."""
        before = dict(self.__dict__)
        self._cache = {}
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _forget(self) -> None:
        forget_fit(self)

    # ---- scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._accepts_missing
        tags.input_tags.categorical = self._accepts_nominal
        tags.input_tags.string = self._accepts_nominal
        tags.array_api_support = True
        return tags


class ArrayClassifier(ClassifierMixin, ArrayEstimator):
    """Base of the classifiers: labels come in with the rows, and go out."""

    classes_: HostArray
    predict_proba: Any

    @property
    def n_classes_(self) -> int:
        """Number of classes."""
        return len(self.classes_)

    def _open_fit(self, X: Any, y: Any) -> tuple[Batch, Labels]:
        """Read the training rows and learn their schema and classes."""
        self._note_columns(X, reset=True)
        X = open_frame(X)
        nominal = getattr(self, "categorical_features", "from_dtype")
        self.schema_, labels = learn_schema_and_labels(X, y, nominal)
        self._refuse_nominal()
        self.classes_ = labels.classes
        batch = self._read(X)
        check_same_length(batch, labels.codes)
        return batch, labels

    def _open_weighted(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        open_fit: Callable[[Any, Any], tuple[Batch, Labels]] | None = None,
    ) -> FitRows:
        """Read training rows with their weights, those of their classes included, on the host.

        Rows that weigh nothing are left out, as if they had never been given; `classes_` keeps their classes.
        `open_fit` reads the rows in place of `_open_fit`.
        """
        open_fit = open_fit or self._open_fit
        batch, labels = open_fit(X, y)
        weights = self._weigh(sample_weight, labels, HOST)
        if weights is None or bool((weights > 0).all()):
            return FitRows(batch, labels, weights, X, y)
        kept = (weights > 0).nonzero()[0]
        X, y = take_rows(X, kept), take_rows(y, kept)
        batch, _ = open_fit(X, y)
        self.classes_ = labels.classes
        return FitRows(batch, labels._replace(codes=labels.codes[kept]), weights[kept], X, y)

    def _leave_out_rare(self, batch: Batch, labels: Labels, weights: Array | None = None) -> Batch:
        """Take categories of too few rows for missing values, now and in later rows."""
        if not batch.table.schema.nominal_idx:
            return batch
        table = leave_out_rare(batch.place, batch.table, labels.codes, labels.classes.shape[0], weights)
        self.schema_ = table.schema
        return batch._replace(table=table)

    def _weigh(self, sample_weight: Any, labels: Labels, place: Place) -> Array | None:
        """Multiply sample and class weights (n,) at `place`; None where every row counts 1."""
        class_weight = getattr(self, "class_weight", None)
        if sample_weight is None and class_weight is None:
            return None
        return join_weights(sample_weight, class_weight, labels.classes, labels.codes, place)

    @available_if(lambda self: hasattr(self, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`, ``-inf`` for 0."""
        proba = self.predict_proba(X)
        xp = locate(proba).xp
        is_possible = proba > 0
        return xp.where(is_possible, xp.log(xp.where(is_possible, proba, 1.0)), -math.inf)

    def _deliver_labels(self, codes: Array, batch: Batch, correction: Correction | None = None) -> Array:
        """Turn class codes into labels at home; labels that no array library holds come as NumPy arrays."""
        xp, n_rows = batch.place.xp, codes.shape[0]
        if batch.home.library == "numpy" or self.classes_.dtype.kind not in "biuf":
            # codes and flags are copied to the host together
            flags = [xp.astype(flag[None], codes.dtype) for flag in _flags(batch, correction)]
            on_host = to_host(xp.concat([codes, *flags]))
            is_bad, *is_needed = on_host[n_rows:].tolist()
            self._refuse_bad(bool(is_bad))
            if correction is not None and is_needed[0]:
                return self.classes_.take(to_host(correction.compute()))
            return self.classes_.take(on_host[:n_rows])
        codes = self._check_flags(codes, batch, correction)
        return move(xp.take(from_host(self.classes_, batch.place), codes, axis=0), batch.home)


@contextmanager
def all_or_nothing(forget: Callable[[], None]) -> Iterator[None]:
    """Call `forget`, which drops what an estimator has learned, on entry and where the block raises."""
    forget()
    try:
        yield
    except BaseException:
        forget()
        raise


def forget_fit(estimator: BaseEstimator) -> None:
    """Drop the fitted attributes of an estimator."""
    made = [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]
    for name in [*made, "_cache"]:
        vars(estimator).pop(name, None)


def _is_fitted(estimator: ArrayEstimator) -> bool:
    return any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))


def _repeatable(method: FunctionType) -> Callable[..., Any]:
    """Let a method that runs out of memory be repeated with smaller chunks."""
    repeat = with_smaller_chunks(method, n_halvings=1)

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        # an inner call begins with what the outer one has stated
        token = stated_work.set([*(stated_work.get() or ())])
        try:
            try:
                return method(*arguments, **options)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
            # outside of `except`: the traceback would keep arrays alive
            return repeat(*arguments, **options)
        finally:
            stated_work.reset(token)

    return call


def check_same_length(batch: Batch, codes: HostArray) -> None:
    """Raise unless there is one class code per row."""
    n_rows, n_labels = batch.table.n_rows, codes.shape[0]
    if n_labels != n_rows:
        raise ValueError(
            "`X` and `y` must have the same number of rows; found input variables with inconsistent numbers "
            f"of samples: {[n_rows, n_labels]}."
        )


def _flags(batch: Batch, correction: Correction | None) -> list[Array]:
    """Return the flags that the host must read before a result is returned."""
    return [batch.is_bad] if correction is None else [batch.is_bad, correction.is_needed]


def _largest_square(place: Place, dtype: Dtype) -> float:
    """Return a number whose square can be summed many times; float32 is summed in float64."""
    largest = float(place.xp.finfo(dtype).max)
    return math.sqrt(largest) * (1e-4 if largest > 1e300 else 0.1)


def _bound_infinity(place: Place, x: Array) -> Array:
    """Replace infinities by the largest number of either sign: their order is all that counts."""
    largest = float(place.xp.finfo(x.dtype).max)
    bounds = place.xp.asarray([-largest, largest], dtype=x.dtype, device=place.device)
    return place.xp.minimum(place.xp.maximum(x, bounds[0]), bounds[1])


def move_model(model: Model, place: Place) -> Model:
    """Bring every array of a (nested) named tuple to `place`; anything else stays as it is."""
    return _map_arrays(lambda array: move(array, place), model)


def cast_model(model: Model, place: Place, dtype: Dtype) -> Model:
    """Bring every array of floats of a (nested) named tuple to `dtype`; anything else stays as it is."""

    def change(array: Array) -> Array:
        is_float = place.xp.isdtype(array.dtype, "real floating")
        return place.xp.astype(array, dtype, copy=False) if is_float else array

    return _map_arrays(change, model)


def _map_arrays(function: Callable[[Array], Array], model: Model) -> Model:
    if is_array(model):
        return cast(Model, function(model))
    if isinstance(model, tuple):
        parts = [_map_arrays(function, part) for part in model]
        return cast(Model, type(model)(*parts) if hasattr(model, "_fields") else tuple(parts))
    return model
