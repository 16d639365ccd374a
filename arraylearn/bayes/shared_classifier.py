"""What both Bayes classifiers share: the predictions, the updates, and checks of priors and weights."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from arraylearn._typing import Array, HostArray, Namespace
from arraylearn.backend.namespace import (
    HOST,
    Place,
    accumulator_dtype,
    from_host,
    is_array,
    to_host,
)
from arraylearn.bayes.fitted_tables import FittedTables
from arraylearn.bayes.naive import log_or_never
from arraylearn.bayes.posterior import SUM_TOLERANCE, log_posterior, most_probable, settle
from arraylearn.estimator import ArrayClassifier, Batch, check_same_length, move_model
from arraylearn.table import Schema, encode_labels, encode_with, learn_schema_and_labels
from arraylearn.weights import flag_weights

__all__ = ["BayesClassifier", "SingularCovarianceWarning", "UndefinedVarianceWarning"]


class UndefinedVarianceWarning(UserWarning):
    """A class has too few known values of a column for a variance; that of the whole column stands in."""


class SingularCovarianceWarning(UserWarning):
    """The covariance of a class has no inverse; a stated multiple of the pooled variances was added."""


class BayesClassifier(ArrayClassifier):
    """Base of the Bayes classifiers: a model is a joint log likelihood; all else follows from it."""

    _sums_squares: ClassVar[bool] = True

    priors: Any
    _statistics: Any

    def __getstate__(self) -> dict[str, Any]:
        # what was learned on a GPU can be read on a machine without one
        state = super().__getstate__()
        for name in ("model_", "_statistics"):
            if name in state:
                state[name] = move_model(state[name], HOST)
        return state

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("_statistics", None)

    # ---- what a method of its own defines

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that break a rule."""

    @abstractmethod
    def _take_statistics(self, batch: Batch, classes: Array, weights: Array | None) -> Any:
        """Return all that the method needs to know of the rows."""

    @abstractmethod
    def _merge_statistics(self, xp: Namespace, old: Any, new: Any) -> Any:
        """Join the statistics of two sets of rows."""

    @abstractmethod
    def _estimate(self, batch: Batch, statistics: Any, is_bad: Array) -> Any:
        """Turn statistics into a model; read `is_bad` together with what else the host must know."""

    @abstractmethod
    def _joint(self, batch: Batch, model: Any) -> Array:
        """Return the joint log likelihood (n, k)."""

    @abstractmethod
    def _terms(self, batch: Batch, model: Any) -> Array:
        """Return each attribute's share (n, d, k) of the log likelihood."""

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows, of any supported array or data frame library.
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), optional
            Weights of the rows, not negative. A weight of 2 counts as the row twice.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        with self._fitting(), self._progress("counting", 1) as report:
            batch, labels = self._open_fit(X, y)
            self._absorb(batch, labels.codes, sample_weight, known=None)
            report()
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows; any number of calls gives what one fit on all rows gives.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like (k,), optional
            All class labels that will ever occur. Required in the first call.

        Returns
        -------
        self
            The updated classifier; as it was, if the update fails.
        """
        self._check_parameters()
        with self._updating():
            is_first = "model_" not in self.__dict__
            self._note_columns(X, reset=is_first)
            self._agree_on_classes(classes, is_first)
            nominal = getattr(self, "categorical_features", "from_dtype")
            if not is_first:
                nominal = [column.is_nominal for column in self.schema_.columns]
            schema, labels = learn_schema_and_labels(X, y, nominal)
            known = self._join_schema(schema, is_first)
            codes = encode_with(labels.classes.take(labels.codes), self.classes_)
            batch = self._read(X)
            check_same_length(batch, codes)
            self._absorb(batch, codes, sample_weight, known)
        return self

    def _agree_on_classes(self, classes: Any, is_first: bool) -> None:
        if is_first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = encode_labels(classes).classes
        elif classes is not None:
            given = encode_labels(classes).classes
            if given.tolist() != self.classes_.tolist():
                raise ValueError(
                    f"`classes` must be those of the first call to partial_fit, {self.classes_.tolist()}; "
                    f"got {given.tolist()}."
                )

    def _join_schema(self, schema: Schema, is_first: bool) -> Any:
        """Keep the schema of the first rows; return the statistics of those before."""
        if is_first:
            self.schema_ = schema
            self._refuse_nominal()
            return None
        return self._statistics

    def _absorb(self, batch: Batch, codes: HostArray, sample_weight: Any, known: Any) -> None:
        """Take the statistics of the rows, add them to the known ones, and make the model anew."""
        weights, is_weight_bad = flag_weights(sample_weight, batch.table.n_rows, batch.place)
        statistics = self._take_statistics(batch, from_host(codes, batch.place), weights)
        if known is not None:
            known = move_model(known, batch.place)
            statistics = self._merge_statistics(batch.place.xp, known, statistics)
        self._statistics = statistics
        is_bad = batch.place.xp.stack([batch.is_bad, is_weight_bad])
        self.model_ = self._estimate(batch, statistics, is_bad)

    def _refuse_flags(self, is_bad: Sequence[bool] | HostArray) -> None:
        self._refuse_bad(is_bad[0])
        if is_bad[1]:
            raise ValueError(
                "`sample_weight` must be finite, at least 0, and not 0 for all rows; got a negative number, "
                "NaN, inf, or zeros alone."
            )

    def _log_prior(self, place: Place) -> Array | None:
        """Return the logarithms of given priors, or None."""
        if self.priors is None:
            return None
        labels = self.classes_.tolist()
        given = _in_order(self.priors, labels) if isinstance(self.priors, Mapping) else self.priors
        values = to_host(given).tolist() if is_array(given) else list(given)
        if len(values) != len(labels):
            raise ValueError(
                f"`priors` must have one number per class ({len(labels)}); got {len(values)}. "
                f"The classes are {labels}."
            )
        numbers = [float(value) for value in values]
        total = math.fsum(numbers)
        if not all(value >= 0 for value in numbers) or not abs(total - 1) <= SUM_TOLERANCE:
            raise ValueError(
                f"`priors` must not be negative and must sum to 1; got {numbers}, sum {total:g}."
            )
        prior = from_host([value / total for value in numbers], place, accumulator_dtype(place))
        return log_or_never(place.xp, prior)

    # ---- predicting

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        array (n,)
            Labels, in the library and on the device of `X` where that holds such labels.
        """
        batch, log_prior, joint = self._open_joint(X)
        if self._may_vanish():
            joint = settle(batch.place.xp, joint, log_prior)
        return self._deliver_labels(most_probable(batch.place.xp, joint), batch)

    def predict_joint_log_proba(self, X: Any) -> Array:
        r"""Return the joint log likelihood :math:`\log P(c) + \log P(x \mid c)`.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        array (n, k)
            In the order of ``classes_``; ``-inf`` where a class is impossible.
        """
        batch, _, joint = self._open_joint(X)
        return self._deliver(joint, batch)

    def predict_log_proba(self, X: Any) -> Array:
        r"""Return the log posterior :math:`\log P(c \mid x)`.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        array (n, k)
            In the order of ``classes_``. A row that is impossible in every class gets the prior.
        """
        batch, log_prior, joint = self._open_joint(X)
        return self._deliver(log_posterior(batch.place.xp, joint, log_prior), batch)

    def predict_proba(self, X: Any) -> Array:
        r"""Return the posterior probability :math:`P(c \mid x)`.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        array (n, k)
            In the order of ``classes_``; each row sums to 1.
        """
        batch, log_prior, joint = self._open_joint(X)
        xp = batch.place.xp
        return self._deliver(xp.exp(log_posterior(xp, joint, log_prior)), batch)

    def decision_function(self, X: Any) -> Array:
        r"""Return the log odds of two classes, or the joint log likelihood of more.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        array (n,) or (n, k)
            Two classes: :math:`\log P(c_1 \mid x) - \log P(c_0 \mid x)`, positive for ``classes_[1]``.
            Otherwise what `predict_joint_log_proba` returns.
        """
        batch, log_prior, joint = self._open_joint(X)
        if joint.shape[1] == 2:
            joint = settle(batch.place.xp, joint, log_prior)
            joint = joint[:, 1] - joint[:, 0]
        return self._deliver(joint, batch)

    def explain(self, X: Any, *, against: Any = None) -> Array:
        r"""Return how much each attribute counts for each class, in log odds.

        Parameters
        ----------
        X : array, data frame or list of lists, (n, d)
            Rows with the columns of `fit`.
        against : class label, optional
            The class to compare with. By default the other class where there are two, and the average of all
            classes where there are more.

        Returns
        -------
        array (n, d) or (n, d, k)
            Two classes and no `against`: :math:`\log P(x_j \mid c_1) - \log P(x_j \mid c_0)`; with the log
            odds of the prior the sum over j is `decision_function`. Otherwise
            :math:`\log P(x_j \mid c)` less that of `against`, or less its mean over the classes in which
            the value is possible; the difference between two classes is the attribute's share of their log
            odds. 0 for a missing value, ``-inf`` for one that is impossible in the class.
        """
        batch = self._open(X)
        xp = batch.place.xp
        terms = self._terms(batch, self._model_at(batch.place, batch.float_dtype))
        if against is not None:
            position = int(encode_with([against], self.classes_)[0])
            return self._deliver(_difference(xp, terms, terms[..., position : position + 1]), batch)
        if terms.shape[2] == 2:
            return self._deliver(_difference(xp, terms[..., 1], terms[..., 0]), batch)
        is_possible = terms > -math.inf
        n_possible = xp.sum(xp.astype(is_possible, terms.dtype), axis=-1, keepdims=True)
        total = xp.sum(xp.where(is_possible, terms, 0.0), axis=-1, keepdims=True)
        average = total / xp.where(n_possible > 0, n_possible, 1.0)
        return self._deliver(xp.where(n_possible > 0, terms - average, 0.0), batch)

    def tables(self) -> FittedTables:
        """Return the fitted probabilities as tables, to print or to take as data frames."""
        check_is_fitted(self)
        return self._make_tables()

    @abstractmethod
    def _make_tables(self) -> FittedTables:
        """Make the tables."""

    def _may_vanish(self) -> bool:
        """Whether a row can be impossible in every class."""
        return False

    def _open_joint(self, X: Any) -> tuple[Batch, Array, Array]:
        """Read rows; return them with the log priors (k,) and their joint log likelihoods (n, k)."""
        batch = self._open(X)
        model = self._model_at(batch.place, batch.float_dtype)
        return batch, model.log_prior, self._joint(batch, model)

    @property
    def class_prior_(self) -> HostArray:
        """Prior probabilities of the classes (k,)."""
        check_is_fitted(self)
        prior: HostArray = np.exp(to_host(self.model_.log_prior))
        return prior


def _difference(xp: Namespace, terms: Array, other: Array) -> Array:
    """Subtract; 0 where both are impossible."""
    is_defined = (terms > -math.inf) | (other > -math.inf)
    return xp.where(is_defined, xp.where(is_defined, terms, 0.0) - xp.where(is_defined, other, 0.0), 0.0)


def _in_order(priors: Mapping[Any, Any], labels: list[Any]) -> list[Any]:
    missing = [label for label in labels if label not in priors]
    if missing or len(priors) != len(labels):
        raise ValueError(
            f"`priors` must have one entry for each of the classes {labels}; got {dict(priors)}."
        )
    return [priors[label] for label in labels]
