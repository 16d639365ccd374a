"""Where boosting begins, when it stops, how it goes on, and what it says after each round."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import arraylearn as al
from arraylearn.backend.dispatch import portable_only
from tests.boosting.data import holes, nominal_frame, stripes
from tests.boosting.test_gradient import assert_same_bits, small

# ---- going on


@pytest.mark.parametrize(
    "options",
    [
        {"k": 2},
        {"k": 3, "subsample": 0.6, "max_features": 0.5, "random_state": 3},
        {"k": 3, "early_stopping": True, "random_state": 3, "n_iter_no_change": 90},
        {"k": 2, "init": GaussianNB()},
    ],
    ids=["plain", "drawn", "early", "init"],
)
def test_a_warm_start_is_one_longer_run(options):
    options = dict(options)
    X, y = stripes(200, k=options.pop("k"))
    weights = np.random.default_rng(0).integers(1, 4, 200)
    whole = small(n_estimators=7, **options).fit(X, y, weights)
    model = small(n_estimators=3, warm_start=True, **options).fit(X, y, weights)
    n_first, first = model.n_iter_, model.predict_proba(X)
    model.set_params(n_estimators=7).fit(X, y, weights)
    assert_same_bits(model, whole)
    assert model.n_iter_ == whole.n_iter_
    np.testing.assert_allclose(model.feature_importances_, whole.feature_importances_)
    np.testing.assert_array_equal(model.validation_score_, whole.validation_score_)
    np.testing.assert_array_equal(list(model.staged_predict_proba(X))[n_first - 1], first)
    again = model.predict_proba(X)
    np.testing.assert_array_equal(model.fit(X, y, weights).predict_proba(X), again)  # nothing is missing


def test_a_warm_start_on_every_backend(rung):
    X, y = nominal_frame(80)
    codes = np.array([np.nan if v is None else ord(v) - 97 for v in X[:, 1]])
    numbers = np.column_stack((X[:, 0].astype(float), codes)).astype(np.float32)
    options = {"categorical_features": [1], "random_state": 0}
    whole = small(n_estimators=4, **options).fit(numbers, y)
    model = small(n_estimators=2, warm_start=True, **options)
    for n_rounds in (2, 4):
        model.set_params(n_estimators=n_rounds).fit(rung.from_host(numbers), rung.from_host(y))
    assert_same_bits(model, whole)


def test_what_a_warm_start_refuses():
    X, y = stripes(60)
    model = small(n_estimators=3, warm_start=True).fit(X, y)
    before = model.predict_proba(X)
    for change, rows, labels, rule in (
        ({"n_estimators": 2}, X, y, "at least the 3 rounds there are already; got 2"),
        ({"n_estimators": 4}, X[:, :2], y, "2 features, but"),
        ({"n_estimators": 4}, X, y + 5, "`y`"),
        ({"n_estimators": 4}, X, 0 * y, "`y` must have all classes of the fit before.*no row of .*1"),
    ):
        with pytest.raises(ValueError, match=rule):
            model.set_params(**change).fit(rows, labels)
        np.testing.assert_array_equal(model.predict_proba(X), before)
    other = model.set_params(warm_start=False, n_estimators=2).fit(X[:, :2], y + 5)
    assert other.n_iter_ == 2
    assert other.classes_.tolist() == [5, 6]


# ---- where it begins


@pytest.mark.parametrize("k", [2, 3])
def test_it_begins_at_the_probabilities_of_a_classifier(k):
    X, y = stripes(150, k=k)
    base = GaussianNB().fit(X, y)
    model = small(n_estimators=1, learning_rate=1e-9, init=GaussianNB()).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), base.predict_proba(X), atol=1e-5)
    assert isinstance(model.init_, GaussianNB)
    better = small(n_estimators=10, init=GaussianNB()).fit(X, y)
    assert log_loss(y, better.predict_proba(X)) < log_loss(y, base.predict_proba(X))
    zero = small(n_estimators=1, learning_rate=1e-9, init="zero").fit(X, y)
    np.testing.assert_allclose(zero.predict_proba(X), 1 / k, atol=1e-6)


@pytest.mark.rungs("compiled")
@pytest.mark.parametrize(("load", "limit"), [(load_breast_cancer, 1e-3), (load_digits, 0.1)])
def test_a_round_spoils_no_init_that_is_all_but_certain(load, limit):
    """The probabilities of naive Bayes are next to 0 and 1, where a Newton step has no bound."""
    data = load()
    X, y = data.data[:600], data.target[:600]
    bayes = al.NaiveBayesClassifier()
    model = al.GradientBoostingClassifier(1, init=bayes, min_child_hessian=limit).fit(X, y)
    # 0.74 for 0.94, 0.43 for 0.95 if probabilities down to 1e-7 are believed
    assert model.score(X, y) > bayes.fit(X, y).score(X, y) - 0.03


def test_what_init_must_be():
    X, y = stripes(40)
    with pytest.raises(ValueError, match="`init` must be None, 'zero' or a classifier; got 'one'"):
        small(init="one").fit(X, y)
    with pytest.raises(ValueError, match="`init` must predict probabilities; got LinearSVC"):
        small(init=LinearSVC()).fit(X, y)
    with pytest.raises(ValueError, match=r"`init` must learn from weighted rows.*KNeighborsClassifier"):
        small(init=KNeighborsClassifier()).fit(X, y, np.ones(40))


def test_a_model_with_init_in_a_file(tmp_path):
    X, y = stripes(60, k=3)
    model = small(n_estimators=2, init=al.NaiveBayesClassifier()).fit(X, y)
    al.save(model, tmp_path / "model")
    np.testing.assert_array_equal(al.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


# ---- when it stops


def test_rows_for_validation(rung):
    X, y = stripes(300, k=3)
    rows = [rung.from_host(part) for part in (X[:200].astype(np.float32), y[:200])]
    new, truth = X[200:].astype(np.float32), y[200:]
    weights = np.random.default_rng(0).integers(1, 4, 100)
    model = small(n_estimators=6, early_stopping=True, learning_rate=0.5)
    model.fit(
        *rows,
        X_val=rung.from_host(new),
        y_val=rung.from_host(truth),
        sample_weight_val=rung.from_host(weights),
    )
    whole = small(n_estimators=6, learning_rate=0.5).fit(*rows)
    stages = [rung.to_host(stage) for stage in whole.staged_predict_proba(rung.from_host(new))]
    losses = [-np.average(np.log(stage[np.arange(100), truth]), weights=weights) for stage in stages]
    np.testing.assert_allclose(model.validation_score_[1:], -np.asarray(losses), rtol=1e-4)
    assert model.n_iter_ == 1 + int(np.argmin(losses))


@pytest.mark.parametrize("scoring", ["accuracy", None, "roc_auc", lambda model, X, y: model.score(X, y)])
def test_a_scorer_judges_the_rows(scoring):
    X, y = stripes(300)
    options = {"n_estimators": 6, "early_stopping": True, "scoring": scoring, "n_iter_no_change": 9}
    model = small(**options).fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    if scoring != "roc_auc":
        whole = small(n_estimators=6).fit(X[:200], y[:200])
        np.testing.assert_array_equal(model.validation_score_[1:], list(whole.staged_score(X[200:], y[200:])))
    assert model.validation_score_.shape == (7,)
    assert model.n_iter_ == max(1, int(np.argmax(model.validation_score_)))
    drawn = small(**options, random_state=0).fit(pd.DataFrame(X), y.astype(str))
    coded = small(**options, random_state=0).fit(X, y)
    np.testing.assert_array_equal(drawn.validation_score_, coded.validation_score_)


def test_the_rows_trained_on_may_judge():
    X, y = stripes(100)
    model = small(early_stopping=True, validation_fraction=None).fit(X, y)
    losses = [log_loss(y, stage) for stage in small().fit(X, y).staged_predict_proba(X)]
    np.testing.assert_allclose(model.validation_score_[1:], -np.asarray(losses), rtol=1e-6)
    assert model.n_iter_ == 5


def test_what_validation_refuses():
    X, y = stripes(40)
    with pytest.raises(ValueError, match="`X_val` and `y_val` must be given together"):
        small(early_stopping=True).fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="`early_stopping` must be True where"):
        small().fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="`y_val` must have a label for each of the 40 rows"):
        small(early_stopping=True).fit(X, y, X_val=X, y_val=y[:3])
    with pytest.raises(
        ValueError, match="`scoring` must be None, 'loss', the name of a scorer or a function"
    ):
        small(scoring=3).fit(X, y)


def test_nominal_columns_with_nothing_left_to_split():
    X, y = np.repeat([["a"], ["b"]], 10, axis=0).astype(object), np.repeat([0, 1], 10)
    options = {"learning_rate": 1.0, "min_child_hessian": 0.5, "n_estimators": 9}
    with portable_only():
        model = small(**options).fit(X, y)
    assert model.model_.trees.n_nodes < 3 * 9  # some trees are roots alone
    assert_same_bits(small(**options).fit(X, y), model)


# ---- after each round


@pytest.mark.parametrize("k", [2, 3])
def test_stages_end_at_the_whole_and_follow_the_input(rung, k):
    X, y = stripes(80, k=k)
    x = rung.from_host(X.astype(np.float32))
    model = small(n_estimators=3).fit(X.astype(np.float32), y)
    for name in ("predict", "predict_proba", "decision_function"):
        *before, last = getattr(model, f"staged_{name}")(x)
        whole = getattr(model, name)(x)
        assert len(before) == 2
        assert type(last) is type(whole)
        assert last.dtype == whole.dtype
        np.testing.assert_array_equal(rung.to_host(last), rung.to_host(whole))


def test_scores_of_stages():
    X, y = stripes(120)
    weights = np.arange(120.0)
    model = small().fit(X, y)
    expected = [np.average(labels == y, weights=weights) for labels in model.staged_predict(X)]
    np.testing.assert_allclose(list(model.staged_score(X, y, weights)), expected)
    assert expected[-1] == pytest.approx(model.score(X, y, weights))


# ---- which columns may interact


def test_columns_that_do_not_interact_add_up():
    X, y = stripes(300)
    model = small(n_estimators=8, interaction_cst=[{0}, {1, 2}, {3}]).fit(X, y)

    def mixed(model):
        """What two columns add together beyond what each adds alone."""
        rows = np.zeros((4, 16, 4))
        steps = np.linspace(-2, 2, 16)
        rows[[1, 3], :, 0], rows[[2, 3], :, 1] = steps, steps[::-1]
        none, first, second, both = model.decision_function(rows.reshape(-1, 4)).reshape(4, 16)
        return np.abs(both - first - second + none).max()

    assert mixed(model) < 1e-5
    assert mixed(small(n_estimators=8).fit(X, y)) > 0.01


@pytest.mark.parametrize("groups", ["no_interactions", "pairwise", [{0, 2}, {1, 2}], [{0, 1}]])
def test_interactions_against_scikit_learn(groups):
    X, y = stripes(300)
    options = {"interaction_cst": groups, "l2_regularization": 1.0, "max_depth": 4}
    peer = HistGradientBoostingClassifier(
        max_iter=6, max_leaf_nodes=None, min_samples_leaf=1, early_stopping=False, **options
    ).fit(X, y)
    model = small(n_estimators=6, min_child_hessian=1e-3, **options).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=2e-3)


def test_interactions_by_name_with_nominal_columns_and_drawn_ones(rung):
    X, y = nominal_frame(150)
    numbers = np.column_stack(
        (X[:, 0].astype(float), [ord(v or "z") - 97 for v in X[:, 1]], np.arange(150) % 7)
    )
    options = {"max_features": 0.7, "random_state": 1, "max_leaf_nodes": 6, "max_depth": 3}
    by_place = small(categorical_features=[1], interaction_cst=[{1, 2}], **options)
    by_place.fit(rung.from_host(numbers.astype(np.float32)), y)
    frame = pd.DataFrame(numbers.astype(np.float32), columns=["a", "b", "c"])
    by_name = small(categorical_features=["b"], interaction_cst=[["b", "c"]], **options).fit(frame, y)
    assert_same_bits(by_place, by_name)


@pytest.mark.parametrize(
    ("groups", "rule"),
    [
        ("triples", "'pairwise', 'no_interactions' or sets of columns; got 'triples'"),
        ([{0, 9}], "positions from 0 to 3; got 9"),
        ([["a"]], "got 'a'"),
        ([1, 2], "must hold sets of columns"),
    ],
)
def test_which_interactions_are_refused(groups, rule):
    with pytest.raises(ValueError, match=f"`interaction_cst`.*{rule}"):
        small(interaction_cst=groups).fit(*stripes(20))


# ---- infinities


def test_infinities_are_extreme_values(rung):
    X = np.array([[-np.inf], [0.0], [1.0], [np.inf], [np.nan]] * 4)
    y = np.array([0, 0, 1, 2, 0] * 4)
    model = small(n_estimators=9, learning_rate=0.5, min_child_hessian=0).fit(
        rung.from_host(X.astype(np.float32)), y
    )
    assert rung.to_host(model.predict(rung.from_host(X.astype(np.float32)))).tolist() == y.tolist()
    bounded = np.clip(X, -1e30, 1e30)
    np.testing.assert_allclose(
        model.predict_proba(X),
        small(n_estimators=9, learning_rate=0.5, min_child_hessian=0).fit(bounded, y).predict_proba(bounded),
    )


def test_infinities_of_new_rows():
    X, y = stripes(200)
    model = small().fit(holes(X), y)
    far = np.clip(X * 1e300, -np.inf, np.inf)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(model.predict_proba(far * 1e300), model.predict_proba(X * 1e300))
    with portable_only():
        small(n_estimators=1).fit(np.where(X > 1, np.inf, X), y)
