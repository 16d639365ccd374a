"""Predictions of a boosted classifier after all rounds, and after each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from arraylearn._typing import Array, HostArray
from arraylearn.backend.namespace import Place, from_host, is_array, to_host
from arraylearn.boosting.boosted import Boosted, probabilities, sum_scores
from arraylearn.boosting.log_loss import SCORE_BITS
from arraylearn.checks import refuse
from arraylearn.estimator import ArrayClassifier, Batch, check_same_length
from arraylearn.folds import Answers
from arraylearn.table import Labels, encode_with
from arraylearn.table.binning import apply_binning
from arraylearn.walk.leaves import state_walk
from arraylearn.walk.packed import PackedTrees, pack_trees

__all__ = ["StagedClassifier", "fit_init", "given_scores"]

# Smaller probabilities of a given classifier count as this one: next to 0 the Newton step for a few wrong
# rows is so large that it turns the labels of all others in their leaf.
_LEAST_PROBABILITY = 2.0**-8


class StagedClassifier(ArrayClassifier):
    """Base of the gradient boosting classifier: scores become labels, probabilities and log odds."""

    scoring: str | Callable[..., float] | None
    n_iter_: int
    init_: Any

    def _reopen_fit(self, X: Any, y: Any) -> tuple[Batch, Labels]:
        """Read further training rows; columns and classes must be those of the previous fit."""
        batch, codes = self._open(X), encode_with(y, self.classes_)
        check_same_length(batch, codes)
        absent = np.setdiff1d(np.arange(len(self.classes_)), codes)
        if absent.size:
            raise ValueError(
                "`y` must have all classes of the fit before, whose rounds stay with warm_start=True; got no "
                f"row of {self.classes_[absent[0]]!r}. Set warm_start=False to start again."
            )
        return batch, Labels(codes, self.classes_)

    def _scores(self, X: Any) -> tuple[Array, Batch]:
        """Return the int32 scores (k, n) after all rounds."""
        batch, bins, first = self._open_binned(X)
        model: Boosted = self._model_at(batch.place)
        assert model.trees is not None
        k = model.start.shape[0]
        scores = sum_scores(batch.place.xp, bins, self._packed_at(batch.place), model.trees.value, k)
        return scores + first, batch

    def _staged_scores(self, X: Any) -> Iterator[tuple[Array, Batch]]:
        """Yield the int32 scores (k, n) after each round."""
        batch, bins, scores = self._open_binned(X)
        model: Boosted = self._model_at(batch.place)
        assert model.trees is not None
        k, packed = model.start.shape[0], self._packed_at(batch.place)
        for i in range(self.n_iter_):
            trees = packed._replace(roots=packed.roots[i * k : (i + 1) * k])
            scores = scores + sum_scores(batch.place.xp, bins, trees, model.trees.value, k)
            yield scores, batch

    def _open_binned(self, X: Any) -> tuple[Batch, Array, Array]:
        """Read rows; return their bins (d, n) and their scores (k, 1) or (k, n) before the first round."""
        batch = self._open(X)
        model: Boosted = self._model_at(batch.place)
        if model.trees is not None:
            state_walk(batch.table.n_rows, self.n_features_in_, self._packed_at(batch.place))
        first = model.start[:, None]
        if "init_" in self.__dict__:
            first = first + from_host(given_scores(self.init_, X), batch.place)
        return batch, apply_binning(batch.place.xp, model.binning, batch.table), first

    def _packed_at(self, place: Place) -> PackedTrees:
        """Return the trees in the form of predictions."""

        def pack() -> PackedTrees:
            model = self._model_at(place)
            return pack_trees(place.xp, model.trees, self.n_features_in_, model.binning.n_bins)

        packed: PackedTrees = self._prepared_at(place, "packed", pack)
        return packed

    @property
    def feature_importances_(self) -> HostArray:
        """Share (d,) of each column in the gains of all splits."""
        check_is_fitted(self)
        gains = np.zeros(self.n_features_in_)
        gains[[*self.schema_.numeric_idx, *self.schema_.nominal_idx]] = self.model_.gains
        total = sum(gains.tolist())
        return gains / total if total > 0 else gains

    # ---- from scores to results

    def _labels(self, scores: Array, batch: Batch) -> Array:
        xp = batch.place.xp
        codes = xp.astype(scores[0, :] > 0, xp.int64) if scores.shape[0] == 1 else xp.argmax(scores, axis=0)
        return self._deliver_labels(codes, batch)

    def _probabilities(self, scores: Array, batch: Batch) -> Array:
        found = probabilities(batch.place.xp, scores, batch.float_dtype)
        if len(self.classes_) == 1:
            found = batch.place.xp.ones_like(found[:, :1])
        return self._deliver(found, batch)

    def _odds(self, scores: Array, batch: Batch) -> Array:
        xp = batch.place.xp
        odds = xp.astype(scores, batch.float_dtype) * 2.0**-SCORE_BITS
        return self._deliver(odds[0, :] if odds.shape[0] == 1 else xp.permute_dims(odds, (1, 0)), batch)

    def answer(self, scores: Array, batch: Batch) -> Answers:
        """Return the predictions that a scorer may ask for, of rows with these scores (k, n)."""
        makers = {
            "predict": self._labels,
            "predict_proba": self._probabilities,
            "decision_function": self._odds,
        }
        return Answers(self.classes_, {name: partial(make, scores, batch) for name, make in makers.items()})

    def predict(self, X: Any) -> Array:
        """Predict the class labels (n,) of rows."""
        return self._labels(*self._scores(X))

    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities (n, c) of the classes, in the order of `classes_`."""
        return self._probabilities(*self._scores(X))

    def decision_function(self, X: Any) -> Array:
        """Return the scores: log odds (n,) of the second of two classes, or (n, c)."""
        return self._odds(*self._scores(X))

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the class labels (n,) after each round."""
        for scores, batch in self._staged_scores(X):
            yield self._labels(scores, batch)

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """Yield the probabilities (n, c) after each round."""
        for scores, batch in self._staged_scores(X):
            yield self._probabilities(scores, batch)

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """Yield the scores, as `decision_function` returns them, after each round."""
        for scores, batch in self._staged_scores(X):
            yield self._odds(scores, batch)

    def staged_score(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[float]:
        """Yield the share (of the weight) of rows whose label `y` is predicted, after each round."""
        labels, weights = (to_host(part) if is_array(part) else part for part in (y, sample_weight))
        for found in self.staged_predict(X):
            yield float(accuracy_score(labels, to_host(found), sample_weight=weights))


def fit_init(init: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Return a fitted copy of the classifier from whose probabilities the scores start."""
    if not hasattr(init, "predict_proba"):
        raise refuse("init", "must predict probabilities", type(init).__name__)
    if sample_weight is None:
        return clone(init).fit(X, y)
    if not has_fit_parameter(init, "sample_weight"):
        name = type(init).__name__
        raise refuse("init", "must learn from weighted rows where `sample_weight` is given", name)
    return clone(init).fit(X, y, sample_weight=sample_weight)


def given_scores(estimator: Any, X: Any) -> HostArray:
    """Return the probabilities of a fitted classifier as int32 scores (k, n) on the host."""
    found = estimator.predict_proba(X)
    shares = np.asarray(to_host(found) if is_array(found) else found, dtype=np.float64)
    logs = np.log(np.clip(shares, _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY))
    odds = logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs - logs.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(np.rint(odds.T * (1 << SCORE_BITS)).astype(np.int32))
