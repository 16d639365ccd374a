"""Which class of ours stands for which of scikit-learn's, and what tells that a test has used one."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from sklearn.base import BaseEstimator

import arraylearn as al

__all__ = ["TEST_FILES", "Use", "may_use", "substitute"]

# Below the folder of scikit-learn.
TEST_FILES = (
    "tree/tests/test_tree.py",
    "tree/tests/test_export.py",
    "tree/tests/test_monotonic_tree.py",
    "ensemble/tests/test_forest.py",
    "ensemble/tests/test_weight_boosting.py",
    "ensemble/tests/test_gradient_boosting.py",
    "ensemble/tests/test_bagging.py",
    "ensemble/tests/test_common.py",
    "ensemble/tests/test_stacking.py",
    "ensemble/tests/test_voting.py",
    "ensemble/_hist_gradient_boosting/tests/test_gradient_boosting.py",
    "ensemble/_hist_gradient_boosting/tests/test_monotonic_constraints.py",
    "ensemble/_hist_gradient_boosting/tests/test_warm_start.py",
    "svm/tests/test_svm.py",
    "svm/tests/test_sparse.py",
    "tests/test_naive_bayes.py",
    "tests/test_discriminant_analysis.py",
    "model_selection/tests/test_search.py",
)
# Imported before anything is replaced, so that scikit-learn's own modules hold their own classes.
_INSIDE = (
    "sklearn.calibration",
    "sklearn.ensemble",
    "sklearn.feature_selection",
    "sklearn.inspection",
    "sklearn.linear_model",
    "sklearn.model_selection",
    "sklearn.multiclass",
    "sklearn.multioutput",
    "sklearn.pipeline",
    "sklearn.utils.estimator_checks",
)


def _with_defaults(
    name: str, ours: type, renamed: Mapping[str, str], *, without: tuple[str, ...] = (), **defaults: Any
) -> type:
    """Return a class of ours with scikit-learn's name and defaults, some parameters under its names.

    Those of `without` choose how the same is computed, or what is kept: they are accepted and not used.
    """
    old_names = {new: old for old, new in renamed.items()}

    def __init__(self: Any, **given: Any) -> None:
        vars(self).update({name: given.pop(name, None) for name in without})
        known = {**defaults, **given}
        ours.__init__(self, **{renamed.get(key, key): value for key, value in known.items()})  # type: ignore[misc]

    def alias(attribute: str) -> property:
        return property(
            lambda self: getattr(self, attribute), lambda self, value: setattr(self, attribute, value)
        )

    signature = inspect.signature(ours.__init__)  # type: ignore[misc]
    parameters = [
        each.replace(
            name=old_names.get(each.name, each.name),
            default=defaults.get(old_names.get(each.name, each.name), each.default),
        )
        for each in signature.parameters.values()
    ]
    parameters += [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None) for each in without]
    __init__.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    aliases = {theirs: alias(attribute) for theirs, attribute in renamed.items()}
    return type(name, (ours,), {"__init__": __init__, "__module__": __name__, **aliases})


# Where names or defaults differ by design.
GradientBoostingClassifier = _with_defaults(
    "GradientBoostingClassifier", al.GradientBoostingClassifier, {}, max_depth=3, min_samples_leaf=1
)
HistGradientBoostingClassifier = _with_defaults(
    "HistGradientBoostingClassifier",
    al.GradientBoostingClassifier,
    {"max_iter": "n_estimators"},
    max_depth=None,
    max_leaf_nodes=31,
)
DecisionTreeClassifier = _with_defaults(
    "DecisionTreeClassifier", al.DecisionTreeClassifier, {}, missing="direction"
)
GaussianNB = _with_defaults("GaussianNB", al.NaiveBayesClassifier, {}, variance="ml", var_smoothing=1e-9)
QuadraticDiscriminantAnalysis = _with_defaults(
    "QuadraticDiscriminantAnalysis",
    al.FullBayesClassifier,
    {"priors_": "class_prior_"},
    without=("solver", "store_covariance", "tol"),
    variance="ml",
)

# module of scikit-learn -> its name -> our class
_SUBSTITUTES: dict[str, dict[str, type]] = {
    "sklearn.tree": {"DecisionTreeClassifier": DecisionTreeClassifier},
    "sklearn.ensemble": {
        "RandomForestClassifier": al.RandomForestClassifier,
        "ExtraTreesClassifier": al.ExtraTreesClassifier,
        "AdaBoostClassifier": al.AdaBoostClassifier,
        "GradientBoostingClassifier": GradientBoostingClassifier,
        "HistGradientBoostingClassifier": HistGradientBoostingClassifier,
    },
    "sklearn.svm": {"SVC": al.SVC, "OneClassSVM": al.OneClassSVM},
    "sklearn.naive_bayes": {"GaussianNB": GaussianNB},
    "sklearn.discriminant_analysis": {"QuadraticDiscriminantAnalysis": QuadraticDiscriminantAnalysis},
    "sklearn.model_selection": {"GridSearchCV": al.GridSearch},
}
_OURS = (
    al.DecisionTreeClassifier,
    al.RandomForestClassifier,
    al.ExtraTreesClassifier,
    al.AdaBoostClassifier,
    al.GradientBoostingClassifier,
    al.SVC,
    al.OneClassSVM,
    al.NaiveBayesClassifier,
    al.FullBayesClassifier,
    al.GridSearch,
)


class Use:
    """Whether a class of ours has been made or fitted since the last `forget`."""

    def __init__(self) -> None:
        self.is_seen = False

    def forget(self) -> None:
        """Start anew."""
        self.is_seen = False

    def watch(self, owner: type, method: str) -> None:
        """Note every call of a method."""
        original = vars(owner).get(method)
        if original is None:  # inherited: another class of ours, or scikit-learn's
            return

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.is_seen = True
            return original(*args, **kwargs)

        setattr(owner, method, noted)


def substitute() -> Use:
    """Put our classes in the places of scikit-learn's, for the rest of the process."""
    for module in _INSIDE:
        importlib.import_module(module)
    for module, classes in _SUBSTITUTES.items():
        home = importlib.import_module(module)
        for name, ours in classes.items():
            setattr(home, name, ours)
    use = Use()
    for owner in _OURS:
        for method in ("__init__", "fit"):
            use.watch(owner, method)
    return use


def may_use(test: Callable[..., Any], cases: Iterable[Any]) -> bool:
    """Whether a test with these parameters can come to a class of ours: false spares running it.

    All names that its code and the functions it calls hold are looked up, in tables by the name of the case.
    """
    names = {name for classes in _SUBSTITUTES.values() for name in classes}
    keys = {case for case in cases if isinstance(case, str)}
    seen: set[str] = set()
    waiting = list(_names(test.__code__))
    home = inspect.unwrap(test).__globals__
    while waiting:
        name = waiting.pop()
        if name in names:
            return True
        if name in seen or name not in home:
            continue
        seen.add(name)
        value = home[name]
        if isinstance(value, FunctionType) and value.__module__ == test.__module__:
            waiting += _names(value.__code__)
        elif isinstance(value, dict) and keys & value.keys():
            value = [value[key] for key in keys & value.keys()]
        if _holds_ours(value):
            return True
    return any(_holds_ours(case) for case in cases)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _holds_ours(value: Any) -> bool:
    if isinstance(value, functools.partial):
        return _holds_ours(value.func)
    if isinstance(value, FunctionType):
        return any(name in classes for name in _names(value.__code__) for classes in _SUBSTITUTES.values())
    if isinstance(value, dict):
        return any(map(_holds_ours, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_ours, value))
    if isinstance(value, BaseEstimator) and not isinstance(value, _OURS):
        return any(map(_holds_ours, value.get_params().values()))
    return isinstance(value, _OURS) or (isinstance(value, type) and issubclass(value, _OURS))
