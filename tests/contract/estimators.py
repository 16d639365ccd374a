"""Every estimator, and what the contract may ask of it.

Add a `Subject` to `SUBJECTS` and the suite beside this file tests it; `CHECKED` adds those for which
scikit-learn's checks alone are run: other settings, and estimators without labels; those of `SETTINGS`, which
run other code, are checked in the slow session. A claim that does not hold
for a method (a stochastic one under a permutation of rows, say) is switched off here, with the reason as a
comment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.covariance import LedoitWolf

import arraylearn as al

__all__ = ["CHECKED", "SETTINGS", "SUBJECTS", "Subject"]


@dataclass(frozen=True)
class Subject:
    """One estimator in one setting.

    Attributes
    ----------
    name : what the tests call it, and `rungs.EXCEPTIONS` if it cannot serve a rung
    make : returns a fresh estimator; keyword arguments override its parameters
    accepts_missing, accepts_nominal, accepts_infinity : whether NaN, nominal columns and infinities are part
        of the method
    has_weights, has_probabilities, has_decision : whether `fit` takes `sample_weight`; which methods it has
    ignores_row_order, counts_weights, ignores_labels : which properties hold: any order of the rows gives the
        same predictions; a weight of 2 is the row twice; other names of the classes in the same order change
        nothing else
    fit_syncs, predict_syncs : how often the host may wait for the device, or None: not promised
    atol : by how much probabilities and decisions may differ between float64 rungs
    expected_failures : scikit-learn's checks that may fail, with the reason
    """

    name: str
    make: Callable[..., Any]
    accepts_missing: bool = True
    accepts_nominal: bool = True
    accepts_infinity: bool = False
    has_weights: bool = True
    has_probabilities: bool = True
    has_decision: bool = True
    ignores_row_order: bool = True
    counts_weights: bool = True
    ignores_labels: bool = True
    fit_syncs: int | None = None
    predict_syncs: int | None = None
    atol: float = 1e-8
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _with(estimator: Callable[..., Any], /, **defaults: Any) -> Callable[..., Any]:
    def make(**changes: Any) -> Any:
        return estimator(**{**defaults, **changes})

    return make


_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
# scikit-learn declares the same of its own support vector machines
_SVM_FAILURES = {
    _WEIGHTS: (
        "gamma='scale' is the variance of the rows without their weights, and solutions agree within `tol`"
    )
}
_FULL = {"accepts_missing": False, "accepts_nominal": False, "fit_syncs": 2, "predict_syncs": 1}

SUBJECTS: tuple[Subject, ...] = (
    Subject("naive_bayes", al.NaiveBayesClassifier, fit_syncs=2, predict_syncs=1),
    Subject("full_bayes", al.FullBayesClassifier, **_FULL),
    Subject("full_bayes_shared", _with(al.FullBayesClassifier, covariance="shared"), **_FULL),
    Subject("full_bayes_diagonal", _with(al.FullBayesClassifier, covariance="diagonal"), **_FULL),
    Subject("full_bayes_shrunk", _with(al.FullBayesClassifier, shrinkage="auto"), **_FULL),
    Subject("decision_tree", al.DecisionTreeClassifier, has_decision=False, predict_syncs=1),
    # solutions agree within the tolerance of the solver, on any rung and for any order or weight of the rows
    Subject(
        "svc",
        _with(al.SVC, tol=1e-5),
        accepts_missing=False,
        accepts_nominal=False,
        has_probabilities=False,
        ignores_row_order=False,
        counts_weights=False,
        atol=1e-4,
        predict_syncs=1,
        expected_failures=_SVM_FAILURES,
    ),
    # the order of the rows decides which of them are held back for pruning
    Subject(
        "ripper",
        _with(al.RipperClassifier, random_state=0),
        has_decision=False,
        ignores_row_order=False,
        counts_weights=False,
        predict_syncs=1,
        expected_failures={
            "check_sample_weight_equivalence_on_dense_data": "a weight is not a row to hold back"
        },
    ),
    Subject("covering", al.SequentialCoveringClassifier, has_decision=False, predict_syncs=1),
    Subject(
        "covering_foil",
        _with(al.SequentialCoveringClassifier, gain="foil", conflict="vote"),
        has_decision=False,
        predict_syncs=1,
    ),
    # its tree is C4.5's, whose leaves have two rows, whatever these weigh
    Subject(
        "rule_set",
        al.RuleSetClassifier,
        has_decision=False,
        counts_weights=False,
        predict_syncs=1,
        expected_failures={_WEIGHTS: "C4.5's leaves have two rows, whatever these weigh"},
    ),
    # two rows of a leaf are rows
    Subject(
        "gradient_boosting",
        _with(al.GradientBoostingClassifier, n_estimators=4, max_depth=3, min_samples_leaf=2),
        counts_weights=False,
        accepts_infinity=True,
        fit_syncs=8 + 2 * 3 * 3 * 4,
        predict_syncs=1,
        expected_failures={_WEIGHTS: "`min_samples_leaf` counts rows"},
    ),
    Subject("adaboost", _with(al.AdaBoostClassifier, n_estimators=4, random_state=0)),
    # rows are drawn: which ones depends on where they stand, and weights are chances
    Subject(
        "random_forest",
        _with(al.RandomForestClassifier, n_estimators=5, random_state=0),
        has_decision=False,
        ignores_row_order=False,
        counts_weights=False,
        predict_syncs=1,
        expected_failures={
            "check_sample_weight_equivalence_on_dense_data": "weights are chances to be drawn",
        },
    ),
    Subject(
        "extra_trees",
        _with(al.ExtraTreesClassifier, n_estimators=5, random_state=0),
        has_decision=False,
        predict_syncs=1,
    ),
)

CHECKED: tuple[Subject, ...] = (
    *SUBJECTS,
    Subject("tree_by_entropy", _with(al.DecisionTreeClassifier, criterion="entropy", missing="direction")),
    Subject(
        "cart", _with(al.cart, pruning=al.pruning.CostComplexity(0.01, risk="error"))
    ),  # by cross-validation, repeated rows are not the same as weights
    Subject(
        "c45", al.c45, expected_failures={_WEIGHTS: "its two rows of a branch, and its pruning, count rows"}
    ),
    Subject("svc_ova", _with(al.SVC, kernel="linear", multiclass="ovr"), expected_failures=_SVM_FAILURES),
    Subject("svc_probability", _with(al.SVC, probability=True), expected_failures=_SVM_FAILURES),
    Subject("one_class_svm", al.OneClassSVM, expected_failures=_SVM_FAILURES),
    Subject("svdd", al.SVDD, expected_failures=_SVM_FAILURES),
)


def _tree(**setting: Any) -> Callable[..., Any]:
    return _with(al.DecisionTreeClassifier, **setting)


def _boosting(**setting: Any) -> Callable[..., Any]:
    return _with(al.GradientBoostingClassifier, n_estimators=4, min_samples_leaf=2, random_state=0, **setting)


_RESAMPLED = _with(
    al.resample.ResampledClassifier,
    estimator=al.NaiveBayesClassifier(),
    sampler=al.resample.RandomOverSampler(random_state=0),
)
_ROWS = {_WEIGHTS: "`min_samples_leaf` counts rows"}
_UNWEIGHTED = {
    "check_fit_score_takes_y": "an estimator of covariances needs all rows at once: no partial_fit",
    **dict.fromkeys(
        (
            _WEIGHTS,
            "check_sample_weights_pandas_series",
            "check_sample_weights_not_an_array",
            "check_sample_weights_list",
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_classifiers_one_label_sample_weights",
        ),
        "an estimator of covariances takes no weights",
    ),
}
_DRAWN = {_WEIGHTS: "rows are drawn, and a weight is not a row to draw"}

# Settings that change the algorithm.
SETTINGS: tuple[Subject, ...] = (
    Subject("cart_folds", al.cart, expected_failures={_WEIGHTS: "a weight is not a row to put into a fold"}),
    Subject("id3", al.id3),
    *(
        Subject(f"tree_{splitter}", _tree(splitter=splitter))
        for splitter in ("hist", "clouds", "clouds_sampling")
    ),
    Subject("tree_random", _tree(splitter="random", random_state=0)),
    Subject("tree_drawn_columns", _tree(max_features=2, random_state=0)),
    Subject("tree_chi2", _tree(pruning="chi2")),
    Subject("tree_pessimistic", _tree(pruning="pessimistic")),
    Subject("tree_mdl", _tree(pruning="mdl")),
    Subject("tree_surrogate", _tree(missing="surrogate", nominal="binary")),
    Subject("tree_known_fraction", _tree(missing="known_fraction")),
    Subject("tree_best_first", _tree(max_leaf_nodes=5)),
    Subject(
        "tree_reduced_error",
        _tree(pruning="reduced_error", random_state=0),
        expected_failures={_WEIGHTS: "a weight is not a row to hold back for pruning"},
    ),
    Subject(
        "boosting_stopped",
        _boosting(early_stopping=True),
        expected_failures={_WEIGHTS: "a weight is not a row to hold back"},
    ),
    Subject(
        "boosting_drawn",
        _boosting(subsample=0.7, max_features=0.7, max_leaf_nodes=4),
        expected_failures={
            **_DRAWN,
            "check_classifiers_train": "four rounds on drawn rows and columns do not reach its accuracy",
        },
    ),
    Subject(
        "forest_whole",
        _with(al.RandomForestClassifier, n_estimators=3, bootstrap=False, random_state=0),
    ),
    Subject(
        "forest_out_of_bag",
        _with(al.RandomForestClassifier, n_estimators=12, oob_score=True, random_state=0),
        expected_failures={**_DRAWN, "check_fit2d_1sample": "the error says that no row is out of a bag"},
    ),
    Subject(
        "extra_trees_drawn",
        _with(al.ExtraTreesClassifier, n_estimators=3, bootstrap=True, random_state=0),
        expected_failures=_DRAWN,
    ),
    Subject("boosting_leaves", _boosting(max_leaf_nodes=4, max_depth=None), expected_failures=_ROWS),
    Subject("boosting_from_zero", _boosting(init="zero"), expected_failures=_ROWS),
    Subject("boosting_warm", _boosting(warm_start=True), expected_failures=_ROWS),
    Subject(
        "forest_entropy_cut",
        _with(
            al.RandomForestClassifier,
            n_estimators=3,
            criterion="entropy",
            ccp_alpha=0.01,
            max_leaf_nodes=8,
            random_state=0,
        ),
        expected_failures=_DRAWN,
    ),
    Subject("adaboost_bayes", _with(al.AdaBoostClassifier, estimator=al.NaiveBayesClassifier())),
    Subject(
        "full_bayes_estimator",
        _with(al.FullBayesClassifier, covariance_estimator=LedoitWolf()),
        expected_failures=_UNWEIGHTED,
    ),
    Subject("full_bayes_regularized", _with(al.FullBayesClassifier, reg_param=0.1)),
    Subject("naive_bayes_m_estimate", _with(al.NaiveBayesClassifier, m_estimate=2.0, smooth_priors=True)),
    Subject("naive_bayes_smoothed", _with(al.NaiveBayesClassifier, variance="ml", var_smoothing=1e-9)),
    *(
        Subject(f"svc_{kernel}", _with(al.SVC, kernel=kernel), expected_failures=_SVM_FAILURES)
        for kernel in ("linear", "poly", "sigmoid")
    ),
    Subject("one_class_svm_linear", _with(al.OneClassSVM, kernel="linear"), expected_failures=_SVM_FAILURES),
    Subject(
        "svc_precomputed",
        _with(al.SVC, kernel="precomputed"),
        expected_failures={
            "check_estimators_nan_inf": "its rows are no kernel values, which is refused first",
            "check_classifiers_one_label_sample_weights": "its rows are no kernel values",
        },
    ),
    Subject(
        "grid_search",
        _with(al.GridSearch, estimator=al.DecisionTreeClassifier(), param_grid={"max_depth": [1, 2]}, cv=2),
    ),
    Subject(
        "grid_search_svc",
        _with(al.GridSearch, estimator=al.SVC(), param_grid={"C": [0.1, 1.0]}, cv=2),
        expected_failures=_SVM_FAILURES,
    ),
    Subject("resampled", _RESAMPLED),
    Subject("over_sampler", _with(al.resample.RandomOverSampler, random_state=0)),
    Subject("under_sampler", _with(al.resample.RandomUnderSampler, random_state=0)),
    Subject("smote", _with(al.resample.SMOTE, random_state=0)),
)
