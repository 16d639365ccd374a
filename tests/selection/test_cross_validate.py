"""Reports: equal to scikit-learn's loop, printed, interrupted, from every library."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import confusion_matrix, make_scorer, recall_score
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.model_selection import cross_validate as sklearn_cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import arraylearn as al

X, Y = load_iris(return_X_y=True)


def test_numbers_are_those_of_scikit_learn():
    report = al.evaluate(GaussianNB(), X, Y, cv=StratifiedKFold(5))
    scores = cross_val_score(GaussianNB(), X, Y, cv=5)
    np.testing.assert_allclose(report.scores["score"], scores)
    np.testing.assert_allclose(report.errors, 1 - scores)
    assert report.mean == {"score": pytest.approx(scores.mean())}
    assert report.standard_error == {"score": pytest.approx(scores.std(ddof=1) / np.sqrt(5))}
    assert report.error_standard_error == pytest.approx(scores.std(ddof=1) / np.sqrt(5))
    predicted = cross_val_predict(GaussianNB(), X, Y, cv=5)
    np.testing.assert_array_equal(report.confusion, confusion_matrix(Y, predicted))
    np.testing.assert_array_equal(report.classifier.predict(X), GaussianNB().fit(X, Y).predict(X))


def test_many_metrics():
    scoring = ["accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"]
    report = al.evaluate(GaussianNB(), X, Y, cv=4, scoring=scoring)
    expected = sklearn_cross_validate(GaussianNB(), X, Y, cv=4, scoring=scoring)
    for name in scoring:
        np.testing.assert_allclose(report.scores[name], expected[f"test_{name}"])
    named = {
        "recall": make_scorer(recall_score, average="macro"),
        "odd": lambda model, X, y: model.theta_[0, 0],
    }
    report = al.evaluate(GaussianNB(), X, Y, cv=4, scoring=named)
    expected = sklearn_cross_validate(GaussianNB(), X, Y, cv=4, scoring=named)
    for name in named:
        np.testing.assert_allclose(report.scores[name], expected[f"test_{name}"])


def test_grouped_and_repeated_folds():
    groups = np.arange(150) % 7
    report = al.evaluate(GaussianNB(), X, Y, cv=GroupKFold(7), groups=groups)
    np.testing.assert_allclose(
        report.scores["score"], cross_val_score(GaussianNB(), X, Y, cv=GroupKFold(7), groups=groups)
    )
    assert all(np.unique(groups[rows]).size == 1 for rows in report.test_rows)
    repeated = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    report = al.evaluate(GaussianNB(), X, Y, cv=repeated)
    assert report.confusion.sum() == 300
    assert len(report.errors) == 6


JUDGED = [
    GaussianNB(),
    al.NaiveBayesClassifier(),
    al.FullBayesClassifier(),
    al.DecisionTreeClassifier(),
    al.SVC(gamma=0.3),
    al.AdaBoostClassifier(n_estimators=3),
    al.GradientBoostingClassifier(n_estimators=2),
]


@pytest.mark.parametrize("estimator", JUDGED, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("kind", ["array", "list", "series"])
def test_folds_as_masks(estimator, kind):
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y))
    made = {"array": np.asarray, "list": np.ndarray.tolist, "series": pd.Series}[kind]
    masks = [tuple(made(np.isin(np.arange(150), rows)) for rows in fold) for fold in folds]
    numbers = [tuple(made(rows) for rows in fold) for fold in folds]
    expected = cross_val_predict(estimator, X, Y, cv=folds)
    for cv in (masks, numbers, [(masks[0][0], folds[0][1]), *folds[1:]]):
        report = al.evaluate(estimator, X, Y, cv=cv)
        found = np.empty_like(Y)
        found[np.concatenate(report.test_rows)] = np.concatenate(report.predictions)
        np.testing.assert_array_equal(found, expected)
        assert report.train_sizes == [100, 100, 100]


@pytest.mark.parametrize("estimator", JUDGED, ids=lambda estimator: type(estimator).__name__)
def test_folds_that_overlap_and_repeat_rows(estimator):
    draws = np.random.default_rng(0)
    folds = [(draws.integers(0, 150, 120), draws.integers(0, 150, 60)) for _ in range(3)]
    report = al.evaluate(estimator, X, Y, cv=folds)
    np.testing.assert_array_equal(report.scores["score"], cross_val_score(estimator, X, Y, cv=folds))


IS_FIRST = np.arange(150) < 75
WRONG_FOLDS = [
    ((IS_FIRST[:-1], ~IS_FIRST), "a mask of 149 entries as the train rows of fold 1"),
    ((IS_FIRST, np.append(~IS_FIRST, True)), "a mask of 151 entries as the test rows of fold 1"),
    ((IS_FIRST, IS_FIRST & ~IS_FIRST), "no row as the test rows of fold 1"),
    (([], [1, 2]), "no row as the train rows of fold 1"),
    (([0.0, 1.0], [2, 3]), "values of dtype float64 as the train rows of fold 1"),
    ((["0", "1"], [2, 3]), "values of dtype <U1 as the train rows of fold 1"),
    (([0, 1], [2, 150]), "row number 150 as the test rows of fold 1"),
    (([0, -1], [2, 3]), "row number -1 as the train rows of fold 1"),
    (([0, 1], [[2, 3]]), r"an array of shape \(1, 2\) as the test rows of fold 1"),
    (([0, 1], 2), r"an array of shape \(\) as the test rows of fold 1"),
]


@pytest.mark.parametrize(("wrong", "got"), WRONG_FOLDS)
@pytest.mark.parametrize("estimator", [GaussianNB(), al.NaiveBayesClassifier(), al.SVC()])
def test_folds_that_are_none(wrong, got, estimator):
    message = f"`cv` must choose rows by their numbers, 0 to 149, or by boolean masks of 150 .* got {got}"
    folds = [(~IS_FIRST, IS_FIRST), wrong]
    with pytest.raises(ValueError, match=message):
        al.evaluate(estimator, X, Y, cv=folds)
    with pytest.raises(ValueError, match=message):
        al.GridSearch(estimator, {}, cv=folds).fit(X, Y)


@pytest.mark.parametrize(("wrong", "got"), WRONG_FOLDS)
def test_folds_that_are_none_of_rows_without_labels(wrong, got):
    search = al.GridSearch(al.OneClassSVM(), {}, cv=[(~IS_FIRST, IS_FIRST), wrong], scoring=lambda *_: 0.0)
    with pytest.raises(ValueError, match=got):
        search.fit(X)


def test_folds_come_in_pairs():
    with pytest.raises(ValueError, match=r"`cv` must yield pairs .*; got 3 part\(s\) in fold 0"):
        al.evaluate(GaussianNB(), X, Y, cv=[([0, 1], [2], [3])])
    with pytest.raises(ValueError, match=r"`cv` must yield pairs .*; got 1 part\(s\) in fold 0"):
        al.evaluate(GaussianNB(), X, Y, cv=[3])


def test_labels_pipelines_frames_weights_and_processes():
    frame = pd.DataFrame(X, columns=list("abcd"))
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    model = make_pipeline(StandardScaler(), GaussianNB())
    expected = cross_val_score(model, frame, names, cv=5)
    np.testing.assert_allclose(al.evaluate(model, frame, pd.Series(names)).scores["score"], expected)
    np.testing.assert_allclose(
        al.evaluate(model, X.tolist(), names.tolist(), n_jobs=2).scores["score"], expected
    )
    weight = np.linspace(0.1, 2, 150)
    found = al.evaluate(GaussianNB(), X, Y, sample_weight=weight)
    expected = cross_val_score(GaussianNB(), X, Y, cv=5, params={"sample_weight": weight})
    np.testing.assert_allclose(found.scores["score"], expected)


def test_leave_one_out():
    few = slice(None, None, 4)
    report = al.leave_one_out(GaussianNB(), X[few], Y[few])
    predicted = cross_val_predict(GaussianNB(), X[few], Y[few], cv=LeaveOneOut())
    np.testing.assert_array_equal(np.concatenate(report.predictions), predicted)
    np.testing.assert_array_equal(report.errors, predicted != Y[few])
    np.testing.assert_array_equal(report.confusion, confusion_matrix(Y[few], predicted))
    pooled = al.evaluate(GaussianNB(), X[few], Y[few], cv=LeaveOneOut(), scoring=["accuracy", "roc_auc_ovr"])
    assert pooled.mean["accuracy"] == pytest.approx(1 - report.error)
    assert 0.9 < pooled.mean["roc_auc_ovr"] <= 1
    assert "mean ± s.e." in str(report)


def test_prints_as_a_table_and_makes_frames():
    report = al.evaluate(GaussianNB(), X, Y, cv=3, scoring=["accuracy", "f1_macro"])
    text = str(report)
    assert "GaussianNB: 3 folds" in text
    assert "f1_macro" in text
    assert text.splitlines()[-1] == "  final classifier: GaussianNB()"
    assert f"{report.error:.4f} ± {report.error_standard_error:.4f}" in text
    frame = report.to_frame()
    assert list(frame.columns) == ["fold", "train_rows", "test_rows", "error", "accuracy", "f1_macro"]
    np.testing.assert_allclose(frame["accuracy"], report.scores["accuracy"])
    assert report.to_frame("polars").shape == (3, 6)
    assert report.confusion_frame()["0"].tolist() == report.confusion[:, 0].tolist()


class Interrupting(GaussianNB):
    """Stops at the third fit, as if Ctrl-C had been pressed."""

    left = 2

    def fit(self, X, y):
        if Interrupting.left == 0:
            raise KeyboardInterrupt
        Interrupting.left -= 1
        return super().fit(X, y)


@pytest.mark.parametrize("judge", [al.evaluate, al.leave_one_out])
def test_interrupted(judge):
    Interrupting.left = 2
    with pytest.warns(UserWarning, match="Interrupted: the report holds 2 of"):
        report = judge(Interrupting(), X, Y)
    assert not report.is_complete
    assert report.classifier is None
    assert len(report.errors) == 2
    assert "interrupted" in str(report)
    assert "final classifier: none" in str(report)
    Interrupting.left = 0
    with pytest.raises(KeyboardInterrupt):
        judge(Interrupting(), X, Y)


def test_refuses():
    with pytest.raises(ValueError, match="as many rows"):
        al.evaluate(GaussianNB(), X, Y[:-1])
    with pytest.raises(ValueError, match="`scoring` must be"):
        al.evaluate(GaussianNB(), X, Y, scoring=[])
    with pytest.raises(ValueError, match="one number per row"):
        al.evaluate(GaussianNB(), X, Y, sample_weight=[1.0])


def test_progress_can_be_shown(capsys):
    al.evaluate(GaussianNB(), X, Y, verbose=1)
    assert "5/5" in capsys.readouterr().err


def test_arrays_of_every_rung(rung):
    """Rows stay where they are; labels and metrics come to the host."""
    A, b = make_classification(80, n_features=4, random_state=0)
    name = rung.float_dtypes[-1]
    report = al.evaluate(
        MeanOfRung(), rung.from_host(A, name), rung.from_host(b), cv=4, scoring=["accuracy", "roc_auc"]
    )
    expected = al.evaluate(MeanOfRung(), A, b, cv=4, scoring=["accuracy", "roc_auc"])
    np.testing.assert_allclose(report.scores["roc_auc"], expected.scores["roc_auc"], rtol=1e-5)
    np.testing.assert_array_equal(report.confusion, expected.confusion)


from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402

from arraylearn.backend.namespace import from_host, locate, to_host  # noqa: E402


class MeanOfRung(ClassifierMixin, BaseEstimator):
    """Nearest mean, computed where the rows are."""

    def fit(self, X, y):
        place = locate(X)
        codes = to_host(y)
        self.classes_ = np.unique(codes)
        rows = [from_host(np.flatnonzero(codes == c), place) for c in self.classes_]
        self.mean_ = [place.xp.mean(place.xp.take(X, idx, axis=0), axis=0) for idx in rows]
        return self

    def decision_function(self, X):
        xp = locate(X).xp
        far, near = (xp.sum((X - mean) ** 2, axis=1) for mean in self.mean_)
        return far - near

    def predict(self, X):
        xp = locate(X).xp
        return xp.astype(self.decision_function(X) > 0, xp.int64)
