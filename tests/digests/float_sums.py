"""Bayes classifiers and support vector machines, which are compared within tolerances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import arraylearn as al
from tests.digests import canonical
from tests.digests.case import SEED, Case, Result, make, measured
from tests.digests.sets import COMPLETE, SCALED, SMALL, Rows

__all__ = ["float_cases"]

_NAIVE = {
    "default": {},
    "laplace": {"alpha": 0.5, "smooth_priors": True},
    "likelihood": {"alpha": 0.0},
    "m_estimate": {"m_estimate": 2.0, "smooth_priors": True},
    "marginal": {"m_estimate": 3.0, "value_priors": "marginal"},
    "ml": {"variance": "ml", "var_smoothing": 1e-6},
}
_FULL = {
    "default": {},
    "shared": {"covariance": "shared"},
    "diagonal": {"covariance": "diagonal", "variance": "ml"},
    "ml": {"variance": "ml"},
    "shrunk": {"shrinkage": 0.2},
    "shrunk_auto": {"shrinkage": "auto"},
    "shared_shrunk": {"covariance": "shared", "shrinkage": "auto"},
}
_TIGHT = {"tol": 1e-6}
_SVC = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "C": 5.0},
    "gamma": {"gamma": 0.7},
    "gamma_auto": {"gamma": "auto"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.5},
    "ova": {"multiclass": "ovr"},
    "ova_linear": {"multiclass": "ovr", "kernel": "linear", "C": 10.0},
    "pairs": {"decision_function_shape": "ovo"},
    "decomposition": {"solver": "decomposition"},
    "dense": {"solver": "dense"},
    "newton": {"kernel": "linear", "solver": "newton"},
    "balanced": {"class_weight": "balanced"},
    "probability": {"probability": True, "random_state": SEED},
    "probability_ova": {"probability": True, "random_state": SEED, "multiclass": "ovr"},
    "sum_of_kernels": {"kernel": al.kernels.Linear() + al.kernels.Gaussian(0.5)},
}
_ONE_CLASS = {
    "default": {},
    "few": {"nu": 0.1},
    "linear": {"kernel": "linear", "nu": 0.3},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
}
_SPHERE = {
    "default": {},
    "price": {"C": 0.05},
    "all": {"C": 1.0},
    "linear": {"kernel": "linear", "C": 0.1},
}


def float_cases() -> Iterable[Case]:
    for name, options in _NAIVE.items():
        yield measured(f"naive/{name}", al.NaiveBayesClassifier, options, SMALL)
    yield measured("naive/weight", al.NaiveBayesClassifier, {}, SMALL, weighted=True)
    priors = _equal_priors
    yield measured("naive/priors", al.NaiveBayesClassifier, priors, SMALL)
    yield Case("naive/partial_fit", _learn_in_parts, SMALL)
    for name, options in _FULL.items():
        yield measured(f"full/{name}", al.FullBayesClassifier, options, COMPLETE)
    yield measured("full/weight", al.FullBayesClassifier, {}, COMPLETE, weighted=True)
    yield measured("full/priors", al.FullBayesClassifier, priors, COMPLETE)
    for name, options in _SVC.items():
        yield measured(f"svc/{name}", al.SVC, _TIGHT | options, SCALED)
    yield measured("svc/weight", al.SVC, _TIGHT, SCALED, weighted=True)
    hard = _TIGHT | {"C": float("inf"), "kernel": "rbf", "gamma": 50.0}
    yield measured("svc/hard_margin", al.SVC, hard, ("iris_scaled", "wine_scaled"))
    for name in ("linear", "rbf", "ova", "balanced"):
        yield measured(f"svc/{name}_many_rows", al.SVC, {"tol": 1e-4} | _SVC[name], ("waves",))
    yield measured("one_class/many_rows", al.OneClassSVM, {**_TIGHT, "nu": 0.2}, ("waves",))
    yield measured("svdd/many_rows", al.SVDD, _TIGHT, ("waves",))
    yield Case("svc/precomputed", _precomputed, SCALED)
    for name, options in _ONE_CLASS.items():
        yield measured(f"one_class/{name}", al.OneClassSVM, _TIGHT | options, SCALED)
    for name, options in _SPHERE.items():
        yield measured(f"svdd/{name}", al.SVDD, _TIGHT | options, SCALED)


def _equal_priors(rows: Rows) -> dict[str, Any]:
    k = len(np.unique(rows.y))
    return {"priors": [1.0 / k] * k}


def _learn_in_parts(rows: Rows) -> Result:
    model = make(al.NaiveBayesClassifier, {}, rows)
    take = rows.X.iloc if hasattr(rows.X, "iloc") else rows.X
    half = len(rows.y) // 2
    model.partial_fit(take[:half], rows.y[:half], classes=np.unique(rows.y))
    model.partial_fit(take[half:], rows.y[half:])
    return canonical.measure(model, rows.probe)


def _precomputed(rows: Rows) -> Result:
    kernel = {"kernel": "rbf", "gamma": 0.5}
    model = al.SVC(kernel="precomputed", tol=1e-6).fit(al.kernels.gram(rows.X, **kernel), rows.y)
    return canonical.measure(model, al.kernels.gram(rows.probe, rows.X, **kernel))
