"""Resampling: counts, the geometry of synthetic rows, every library and frame, training folds only."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

import arraylearn as al
from arraylearn.selection.resampling.neighbours import commonest_neighbour, median_deviation, nearest_rows
from tests.backends.assertions import assert_close

SAMPLERS = [
    al.resample.RandomUnderSampler(random_state=1),
    al.resample.RandomOverSampler(random_state=1),
    al.resample.SMOTE(random_state=1),
    al.resample.RandomOverSampler(shrinkage=0.5, random_state=1),
]


def skewed(seed=0):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(0, 1, (40, 3)), rng.normal(2, 1, (12, 3)), rng.normal(-3, 2, (7, 3))])
    return X, np.repeat([0, 1, 2], [40, 12, 7])


# ---- kernels


def test_nearest_rows_by_hand(rung, xp):
    x = rung.from_host([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [9.0, 9.0]], rung.float_dtypes[-1])
    codes = rung.from_host(np.zeros((0, 4)), "int32")
    with rung.forbid_syncs():
        found = nearest_rows(xp, x, codes, median_deviation(xp, x), k=2)
    assert_close(found, np.array([[1, 2], [0, 2], [0, 1], [2, 1]]))


def test_a_differing_category_adds_the_penalty(rung, xp):
    # 0 and 1 are equal but for their category, 0 and 2 lie 1 apart: with penalty 2 row 2 is nearer
    x = rung.from_host([[0.0], [0.0], [1.0]], rung.float_dtypes[-1])
    codes = rung.from_host([[0, 1, 0]], "int32")
    penalty = rung.from_host(np.asarray(2.0), rung.float_dtypes[-1])
    assert_close(nearest_rows(xp, x, codes, penalty, k=2)[0, :], np.array([2, 1]))
    assert_close(nearest_rows(xp, x, codes, 0.25 * penalty, k=2)[0, :], np.array([1, 2]))


def test_nearest_rows_agree_with_scikit_learn_in_any_chunks(rung, xp):
    x = np.random.default_rng(0).normal(size=(60, 4)) + 1000.0
    expected = NearestNeighbors(n_neighbors=5).fit(x).kneighbors(return_distance=False)
    name = rung.float_dtypes[-1]
    if name == "float32":
        x = x - 1000.0
    al.set_memory_budget(5000)
    try:
        found = nearest_rows(
            xp,
            rung.from_host(x, name),
            rung.from_host(np.zeros((0, 60)), "int32"),
            rung.from_host(1.0, name),
            k=5,
        )
    finally:
        al.set_memory_budget(None)
    assert_close(found, expected)


def test_median_deviation(rung, xp):
    x = rung.from_host([[0.0, 0.0, 0.0, 1.0], [2.0, 4.0, 20.0, 1.0]], rung.float_dtypes[-1])
    assert_close(
        median_deviation(xp, x), np.asarray(1.5), dtype=rung.float_dtypes[-1]
    )  # deviations 1, 2, 10, 0
    assert_close(median_deviation(xp, x[:, :0]), np.asarray(1.0), dtype=rung.float_dtypes[-1])


def test_the_commonest_neighbour(rung, xp):
    codes = rung.from_host([0, 0, 1, 2, 1], "int32")
    neighbours = rung.from_host([[1, 2, 4], [3, 0, 2], [0, 4, 1]], "int64")
    assert_close(commonest_neighbour(xp, codes, neighbours), np.array([2, 3, 0]))


# ---- samplers


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_same_rows_on_every_rung(rung, sampler):
    X, y = skewed()
    expected_X, expected_y = clone(sampler).fit_resample(X, y)
    name = rung.float_dtypes[-1]
    found_X, found_y = clone(sampler).fit_resample(rung.from_host(X, name), rung.from_host(y))
    assert_close(found_y, expected_y)
    assert_close(found_X, expected_X, dtype=name, rtol=1e-4 if name == "float32" else None)


def test_counts_after_sampling():
    X, y = skewed()
    counts = {}
    for sampler in SAMPLERS:
        X_new, y_new = clone(sampler).fit_resample(X, y)
        assert X_new.shape[0] == y_new.shape[0]
        counts[type(sampler).__name__] = np.bincount(y_new).tolist()
    assert counts == {"RandomUnderSampler": [7] * 3, "RandomOverSampler": [40] * 3, "SMOTE": [40] * 3}


@pytest.mark.parametrize(
    ("sampler", "strategy", "expected"),
    [
        (al.resample.RandomUnderSampler, "majority", [7, 12, 7]),
        (al.resample.RandomUnderSampler, "not minority", [7, 7, 7]),
        (al.resample.RandomUnderSampler, "not majority", [40, 7, 7]),
        (al.resample.RandomUnderSampler, "all", [7, 7, 7]),
        (al.resample.RandomUnderSampler, {0: 20}, [20, 12, 7]),
        (al.resample.RandomOverSampler, "minority", [40, 12, 40]),
        (al.resample.RandomOverSampler, "not minority", [40, 40, 7]),
        (al.resample.RandomOverSampler, "not majority", [40, 40, 40]),
        (al.resample.SMOTE, "all", [40, 40, 40]),
        (al.resample.RandomOverSampler, {2: 9}, [40, 12, 9]),
        (al.resample.SMOTE, {1: 15, 2: 9}, [40, 15, 9]),
    ],
)
def test_strategies(sampler, strategy, expected):
    X, y = skewed()
    _, y_new = sampler(sampling_strategy=strategy, random_state=0).fit_resample(X, y)
    assert np.bincount(y_new).tolist() == expected


def test_ratios_are_for_two_classes():
    X, y = skewed()
    few = y < 2
    _, grown = al.resample.SMOTE(sampling_strategy=0.5, random_state=0).fit_resample(X[few], y[few])
    assert np.bincount(grown).tolist() == [40, 20]
    _, shrunk = al.resample.RandomUnderSampler(sampling_strategy=0.5, random_state=0).fit_resample(
        X[few], y[few]
    )
    assert np.bincount(shrunk).tolist() == [24, 12]
    for sampler, more in ((al.resample.RandomOverSampler, "fewer"), (al.resample.RandomUnderSampler, "more")):
        with pytest.raises(ValueError, match=f"must not ask for {more} rows than there are; got 0.1"):
            sampler(sampling_strategy=0.1).fit_resample(X[few], y[few])
    with pytest.raises(ValueError, match="two classes only; got 3 classes"):
        al.resample.SMOTE(sampling_strategy=0.5).fit_resample(X, y)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_fit_tells_what_is_to_be_done(sampler):
    X, y = skewed()
    fitted = clone(sampler).fit(X, y)
    found = np.bincount(clone(sampler).fit_resample(X, y)[1])
    before = np.bincount(y)
    numbers = found if isinstance(sampler, al.resample.RandomUnderSampler) else found - before
    assert fitted.sampling_strategy_ == {c: numbers[c] for c in range(3) if found[c] != before[c]}


def test_a_smoothed_bootstrap_has_the_spread_that_is_asked_for():
    rng = np.random.default_rng(0)
    rare = rng.normal(size=(50, 2)) * [1.0, 5.0]
    X, y = np.concatenate((rng.normal(size=(6050, 2)), rare)), np.repeat([0, 1], [6050, 50])
    X_new, y_new = al.resample.RandomOverSampler(shrinkage=2.0, random_state=0).fit_resample(X, y)
    np.testing.assert_array_equal(X_new[:6100], X)
    new = X_new[6100:]
    assert (y_new[6100:] == 1).all()
    # noise of 2 (4 / (4 * 50)) ** (1/6) deviations, independent of the rows drawn
    spread = np.sqrt(1 + (2.0 * (4 / 200) ** (1 / 6)) ** 2) * rare.std(axis=0)
    np.testing.assert_allclose(new.std(axis=0), spread, rtol=0.05)
    np.testing.assert_allclose(new.mean(axis=0), rare.mean(axis=0), atol=0.15 * spread.max())


def test_a_smoothed_bootstrap_by_class_leaves_categories():
    frame = pd.DataFrame({"a": np.arange(12.0), "b": list("xy" * 6)})
    y = np.repeat(["p", "q", "r"], [6, 4, 2])
    sampler = al.resample.RandomOverSampler(shrinkage={"q": 1.0}, random_state=0)
    X_new, y_new = sampler.fit_resample(frame, y)
    source = frame.iloc[sampler.sample_indices_].reset_index(drop=True)
    assert (X_new["b"] == source["b"]).all()
    is_moved = X_new["a"] != source["a"]
    assert y_new[is_moved].tolist() == ["q", "q"]
    for wrong, rule in ((-1.0, "of at least 0"), ({"s": 1.0}, "must name classes of `y`")):
        with pytest.raises(ValueError, match=f"`shrinkage.*{rule}"):
            al.resample.RandomOverSampler(shrinkage=wrong).fit_resample(frame, y)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("some", "must be 'minority', 'not minority', 'not majority', 'all', 'auto', a ratio"),
        ({5: 3}, "must name classes"),
        ({0: 3}, "at least 40"),
        (2.0, "in \\(0, 1\\]"),
    ],
)
def test_wrong_strategies(strategy, message):
    with pytest.raises(ValueError, match=message):
        al.resample.SMOTE(sampling_strategy=strategy).fit_resample(*skewed())


def test_smote_lies_between_a_row_and_one_of_its_neighbours():
    X, y = skewed()
    X_new, y_new = al.resample.SMOTE(k_neighbors=3, random_state=3).fit_resample(X, y)
    np.testing.assert_array_equal(X_new[: len(X)], X)
    for c in (1, 2):
        own = X[y == c]
        near = NearestNeighbors(n_neighbors=3).fit(own).kneighbors(return_distance=False)
        for row in X_new[len(X) :][y_new[len(X) :] == c]:
            distances = [
                np.linalg.norm(row - own[i]) + np.linalg.norm(row - own[j]) - np.linalg.norm(own[i] - own[j])
                for i in range(len(own))
                for j in near[i]
            ]
            assert min(distances) < 1e-9


def test_smote_refuses():
    X, y = skewed()
    with pytest.raises(ValueError, match="contains NaN"):
        al.resample.SMOTE().fit_resample(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="two rows or more"):
        al.resample.SMOTE().fit_resample(X[:41], y[:41])
    with pytest.raises(ValueError, match="k_neighbors"):
        al.resample.SMOTE(k_neighbors=0).fit_resample(X, y)
    with pytest.raises(ValueError, match="same number of rows"):
        al.resample.SMOTE().fit_resample(X, y[:-1])


def mixed_columns():
    rng = np.random.default_rng(0)
    y = np.repeat(["much", "few"], [30, 9])
    return {
        "age": rng.integers(20, 60, 39),
        "colour": rng.choice(["red", "green", "blue"], 39),
        "size": rng.normal(size=39).astype(np.float32),
        "is_new": rng.random(39) > 0.5,
    }, y


@pytest.mark.parametrize("library", ["pandas", "polars", "pandas_categorical", "pandas_index"])
def test_frames_stay_frames(library):
    columns, y = mixed_columns()
    frame = pl.DataFrame(columns) if library == "polars" else pd.DataFrame(columns)
    if library == "pandas_categorical":
        frame["colour"] = frame["colour"].astype("category")
    if library == "pandas_index":
        frame.index = frame.index + 100
    X_new, y_new = al.resample.SMOTE(random_state=0).fit_resample(frame, y)
    assert type(X_new) is type(frame)
    assert list(X_new.columns) == list(frame.columns)
    assert X_new.shape == (60, 4)
    assert (y_new == "few").sum() == 30
    new = X_new[39:]
    assert set(new["colour"]) <= {"red", "green", "blue"}
    if library == "pandas_categorical":
        assert X_new["colour"].dtype == frame["colour"].dtype
    age = np.asarray(new["age"])
    few = columns["age"][30:]
    assert age.dtype == np.float64
    assert few.min() <= age.min()
    assert age.max() <= few.max()
    assert str(X_new["size"].dtype).lower() == "float32"
    for sampler in SAMPLERS[:2]:
        taken, _ = clone(sampler).fit_resample(frame, y)
        assert type(taken) is type(frame)


def test_smote_nc_agrees_between_kinds_of_tables():
    columns, y = mixed_columns()
    frame = pd.DataFrame(columns).astype({"size": "float64"})
    expected, _ = al.resample.SMOTE(random_state=0).fit_resample(frame, y)
    objects, _ = al.resample.SMOTE(random_state=0).fit_resample(frame.to_numpy(dtype=object), y)
    rows, _ = al.resample.SMOTE(random_state=0).fit_resample(frame.to_numpy(dtype=object).tolist(), y)
    coded = frame.assign(colour=pd.Categorical(frame["colour"]).codes, is_new=frame["is_new"].astype(int))
    numbers, _ = al.resample.SMOTE(random_state=0, categorical_features=[1, 3]).fit_resample(
        coded.to_numpy(float), y
    )
    assert expected["colour"].tolist() == objects[:, 1].tolist() == [row[1] for row in rows]
    np.testing.assert_allclose(expected["age"], objects[:, 0].astype(float))
    np.testing.assert_allclose(expected["age"], numbers[:, 0])
    np.testing.assert_allclose(pd.Categorical(expected["colour"]).codes, numbers[:, 1])


def test_nothing_to_do():
    X, y = skewed()
    X_new, y_new = al.resample.SMOTE().fit_resample(X[33:47], y[33:47])
    np.testing.assert_array_equal(X_new, X[33:47])
    assert np.bincount(y_new).tolist() == [7, 7]


# ---- training folds only


class Recorder(GaussianNB):
    sizes: list[int] = []  # noqa: RUF012

    def fit(self, X, y):
        Recorder.sizes.append(len(y))
        return super().fit(X, y)


def test_only_training_rows_are_resampled():
    X, y = make_classification(200, weights=[0.9], random_state=0)
    model = al.resample.ResampledClassifier(Recorder(), al.resample.RandomOverSampler(random_state=0))
    Recorder.sizes.clear()
    scores = cross_val_score(model, X, y, cv=StratifiedKFold(4))
    assert Recorder.sizes == [2 * int((y[train] == 0).sum()) for train, _ in StratifiedKFold(4).split(X, y)]
    report = al.evaluate(model, X, y, cv=StratifiedKFold(4))
    np.testing.assert_allclose(report.scores["score"], scores)
    assert report.confusion.sum() == 200


def test_the_wrapper_is_an_estimator():
    X, y = skewed()
    model = clone(al.resample.ResampledClassifier(GaussianNB(), al.resample.SMOTE(random_state=0)))
    model.set_params(sampler__k_neighbors=2).fit(X, y)
    assert model.predict_proba(X).shape == (59, 3)
    assert not hasattr(model, "decision_function")
    more = al.resample.SMOTE(k_neighbors=2, random_state=0).fit_resample(X, y)
    np.testing.assert_array_equal(model.predict(X), GaussianNB().fit(*more).predict(X))


def test_rows_are_read_as_learners_read_them():
    X, y = skewed()
    for sampler in (al.resample.RandomOverSampler(), al.resample.RandomUnderSampler(), al.resample.SMOTE()):
        assert sampler.fit(X, y).n_features_in_ == X.shape[1]
        with pytest.raises(TypeError, match="sparse"):
            sampler.fit_resample(sparse.csr_array(X), y)
        with pytest.raises(ValueError, match="Reshape your data"):
            sampler.fit(X[:, 0], y)
    holes = np.where(X > 2, np.nan, X)  # rows are repeated or left out as they are
    rows, _ = al.resample.RandomOverSampler(random_state=0).fit_resample(holes, y)
    np.testing.assert_array_equal(rows[: len(X)], holes)


def test_sparse_rows_of_any_form_are_cut_for_the_learners_of_others():
    X, y = skewed()
    expected = al.GridSearch(SVC(), {"C": [1.0]}, cv=2).fit(X, y).best_score_
    for form in (sparse.csr_array, sparse.coo_array, sparse.dok_array):
        assert al.GridSearch(SVC(), {"C": [1.0]}, cv=2).fit(form(X), y).best_score_ == expected
