"""What weights promise: they have no scale, weight 0 is no row, and weight 2 is the row twice.

`EXEMPT` is the one table of the estimators and settings for which one of these does not hold. Besides, models
may differ where two cuts of a node have the same gain, as those of two columns that divide its rows alike:
rounding decides between them, and depends on the units of the weights.
"""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from tests.contract.estimators import CHECKED, SETTINGS

_OWN_UNITS = "a parameter is in units of weight"
_ROWS = "a limit counts rows"
_DRAWN = "rows are drawn or held back, and a weight is not a row to draw"

# Subject -> promise -> why it does not hold.
EXEMPT = {
    "naive_bayes": {"scale": f"{_OWN_UNITS}: `alpha`, and a variance divides by the weight less 1"},
    "full_bayes": {"scale": f"{_OWN_UNITS}: a covariance divides by the weight less 1"},
    "full_bayes_shared": {"scale": f"{_OWN_UNITS}: a covariance divides by the weight less 1"},
    "full_bayes_diagonal": {"scale": f"{_OWN_UNITS}: a covariance divides by the weight less 1"},
    "full_bayes_shrunk": {"scale": f"{_OWN_UNITS}: the shrinkage follows from the number of rows"},
    "svc": {
        "scale": f"{_OWN_UNITS}: `C`",
        "repetition": "gamma='scale' is the variance of the rows without their weights, as scikit-learn's",
    },
    "c45": {"repetition": f"{_ROWS}: two of a branch"},
    "cart_by_folds": {"repetition": f"{_DRAWN}: into folds"},
    "tree_leaf_of_5": {"repetition": f"{_ROWS}: `min_samples_leaf`"},
    "tree_split_of_9": {"repetition": f"{_ROWS}: `min_samples_split`"},
    "tree_missing": {"repetition": f"{_ROWS}: a branch has one, in parts of those without a value"},
    "tree_reduced_error": {"repetition": f"{_DRAWN}: to prune by"},
    "ripper": {"repetition": f"{_ROWS}: two of a rule; {_DRAWN}: to prune by"},
    "gradient_boosting": {"repetition": f"{_ROWS}: `min_samples_leaf`"},
    "boosting_stopped": {"repetition": f"{_DRAWN}: to stop by"},
    "boosting_drawn": {"repetition": f"{_DRAWN}: for each tree"},
    "random_forest": {"repetition": f"{_DRAWN}: bootstrap"},
    "extra_trees_drawn": {"repetition": f"{_DRAWN}: bootstrap"},
    "rule_set": {"repetition": f"{_ROWS}: two of a branch of C4.5's tree"},
    "naive_bayes_smoothed": {"scale": f"{_OWN_UNITS}: `alpha`"},
}

_TREE = al.DecisionTreeClassifier
_MORE = {
    "tree_leaf_of_5": lambda: _TREE(min_samples_leaf=5),
    "tree_split_of_9": lambda: _TREE(min_samples_split=9),
    "cart_by_folds": lambda: al.cart(
        pruning=al.pruning.CostComplexity(risk="error", folds=3), random_state=0
    ),
    "tree_missing": lambda: _TREE(),
    "tree_balanced": lambda: _TREE(class_weight="balanced"),
    "tree_random": lambda: _TREE(splitter="random", random_state=0),
    "tree_mdl": lambda: _TREE(pruning="mdl"),
    "tree_few_bins": lambda: _TREE(splitter="hist", max_bins=6),
    "extra_trees_balanced": lambda: al.ExtraTreesClassifier(
        n_estimators=2, class_weight="balanced", max_bins=6, random_state=0
    ),
    "boosting_any_leaf": lambda: al.GradientBoostingClassifier(
        n_estimators=2, min_samples_leaf=0, l2_regularization=1.0, max_bins=6
    ),
}
_MACHINES = ("svc_", "one_class", "svdd")  # as "svc"
_CHOSEN = (
    "adaboost_bayes",
    "boosting_drawn",
    "boosting_stopped",
    "extra_trees_drawn",
    "forest_whole",
    "id3",
    "naive_bayes_smoothed",
    "tree_best_first",
    "tree_clouds",
    "tree_clouds_sampling",
    "tree_known_fraction",
    "tree_reduced_error",
    "tree_surrogate",
)
CASES = {
    **{each.name: each.make for each in CHECKED if each.has_weights and not each.name.startswith(_MACHINES)},
    **{each.name: each.make for each in SETTINGS if each.name in _CHOSEN},
    **_MORE,
}

# Bodies that weigh rows on their own; that they agree with the array programs is tested beside them.
COMPILED = ("decision_tree", "tree_by_entropy", "gradient_boosting", "random_forest", "extra_trees", "ripper")


def rows(name):
    """Rows of three classes in eighths: with nominal columns where they are taken, and missing values."""
    rng = np.random.default_rng(5)
    y = np.arange(48) % 3
    X = np.round((rng.normal(size=(3, 3))[y] * 1.5 + rng.normal(size=(48, 3))) * 8) / 8
    if name == "tree_missing":
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def answers(make, X, y, weight=None, asked=None):
    model = make().fit(X, y, **({} if weight is None else {"sample_weight": weight}))
    asked = X if asked is None else asked
    return model.predict_proba(asked) if hasattr(model, "predict_proba") else model.decision_function(asked)


def on_rungs(name):
    rungs = ("numpy", "compiled") if name in COMPILED else ("numpy",)
    return pytest.param(name, marks=pytest.mark.rungs(*rungs))


@pytest.mark.parametrize("name", [on_rungs(name) for name in CASES])
def test_weights(name, rung):
    make, exempt = CASES[name], EXEMPT.get(name, {})
    X, y = rows(name)
    rng = np.random.default_rng(1)
    times = rng.integers(1, 4, 48)
    weight = rng.random(48) + 0.1
    if "scale" not in exempt:
        plain = answers(make, X, y, weight)
        np.testing.assert_array_equal(answers(make, X, y, 4 * weight), plain)
        close = answers(make, X, y, weight / weight.sum())
        np.testing.assert_allclose(close, plain, rtol=1e-6, atol=1e-6)
        alike = answers(make, X, y, np.full(48, 0.3))
        np.testing.assert_allclose(alike, answers(make, X, y), rtol=1e-6, atol=1e-6)
    if "zero" not in exempt:
        kept = rng.random(48) < 0.8
        removed = answers(make, X[kept], y[kept], weight[kept], X)
        none = answers(make, X, y, np.where(kept, weight, 0.0))
        np.testing.assert_allclose(none, removed, rtol=1e-6, atol=1e-6)
    if "repetition" not in exempt:
        repeated = answers(make, np.repeat(X, times, axis=0), np.repeat(y, times), None, X)
        np.testing.assert_allclose(answers(make, X, y, times), repeated, rtol=1e-5, atol=1e-5)


def test_every_exemption_is_of_a_case():
    assert EXEMPT.keys() <= CASES.keys()
