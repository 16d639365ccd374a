"""The classical classifiers, each written once as an array program.

>>> import arraylearn as al

Everything below is imported when it is first used, so that ``import arraylearn`` stays cheap and loads no
array library but NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

from arraylearn._version import __version__

# public name -> module that defines it; a name that maps to its own module is a public submodule
_HOMES = {
    "AdaBoostClassifier": "arraylearn.boosting",
    "BackendFallbackWarning": "arraylearn.backend",
    "BackendUnavailableError": "arraylearn.backend",
    "ExtraTreesClassifier": "arraylearn.forest",
    "GradientBoostingClassifier": "arraylearn.boosting",
    "RandomForestClassifier": "arraylearn.forest",
    "MemoryBudgetError": "arraylearn.backend",
    "GridSearch": "arraylearn.selection",
    "RipperClassifier": "arraylearn.rules",
    "RuleSetClassifier": "arraylearn.rules",
    "SequentialCoveringClassifier": "arraylearn.rules",
    "SVC": "arraylearn.svm",
    "SVDD": "arraylearn.svm",
    "OneClassSVM": "arraylearn.svm",
    "FullBayesClassifier": "arraylearn.bayes",
    "NaiveBayesClassifier": "arraylearn.bayes",
    "bayes_rule": "arraylearn.bayes",
    "backend_info": "arraylearn.backend",
    "cross_validate": "arraylearn.selection",
    "get_backend": "arraylearn.backend",
    "get_compiled": "arraylearn.backend",
    "get_memory_budget": "arraylearn.backend",
    "get_num_threads": "arraylearn.backend",
    "io": "arraylearn.io",
    "load": "arraylearn.io",
    "save": "arraylearn.io",
    "leave_one_out": "arraylearn.selection",
    "permutation_importance": "arraylearn.explain",
    "set_backend": "arraylearn.backend",
    "set_compiled": "arraylearn.backend",
    "set_memory_budget": "arraylearn.backend",
    "set_num_threads": "arraylearn.backend",
    "use_backend": "arraylearn.backend",
    "bayes": "arraylearn.bayes",
    "datasets": "arraylearn.datasets",
    "gaussian": "arraylearn.gaussian",
    "kernels": "arraylearn.kernels",
    "measures": "arraylearn.measures",
    "resample": "arraylearn.selection",
    "rules": "arraylearn.rules",
    "selection": "arraylearn.selection",
    "svm": "arraylearn.svm",
    "plot": "arraylearn.plot",
    "table": "arraylearn.table",
    "tree": "arraylearn.tree",
    "DecisionTreeClassifier": "arraylearn.tree",
    "c45": "arraylearn.tree",
    "cart": "arraylearn.tree",
    "id3": "arraylearn.tree",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'arraylearn' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    value = module if _HOMES[name] == f"arraylearn.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
