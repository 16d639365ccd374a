"""The classical classifiers, each written once as an array program.

>>> import arraylearn as al

Everything below is imported when it is first used, so that ``import arraylearn`` stays cheap and loads no
array library but NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from arraylearn._version import __version__

if TYPE_CHECKING:  # the same names, for editors and type checkers
    from arraylearn import bayes as bayes
    from arraylearn import boosting as boosting
    from arraylearn import datasets as datasets
    from arraylearn import explain as explain
    from arraylearn import forest as forest
    from arraylearn import gaussian as gaussian
    from arraylearn import io as io
    from arraylearn import kernels as kernels
    from arraylearn import measures as measures
    from arraylearn import plot as plot
    from arraylearn import rules as rules
    from arraylearn import selection as selection
    from arraylearn import svm as svm
    from arraylearn import table as table
    from arraylearn import tree as tree
    from arraylearn.backend import BackendFallbackWarning as BackendFallbackWarning
    from arraylearn.backend import BackendUnavailableError as BackendUnavailableError
    from arraylearn.backend import LongRunWarning as LongRunWarning
    from arraylearn.backend import MemoryBudgetError as MemoryBudgetError
    from arraylearn.backend import backend_info as backend_info
    from arraylearn.backend import get_backend as get_backend
    from arraylearn.backend import get_compiled as get_compiled
    from arraylearn.backend import get_memory_budget as get_memory_budget
    from arraylearn.backend import get_num_threads as get_num_threads
    from arraylearn.backend import set_backend as set_backend
    from arraylearn.backend import set_compiled as set_compiled
    from arraylearn.backend import set_memory_budget as set_memory_budget
    from arraylearn.backend import set_num_threads as set_num_threads
    from arraylearn.backend import use_backend as use_backend
    from arraylearn.bayes import FullBayesClassifier as FullBayesClassifier
    from arraylearn.bayes import NaiveBayesClassifier as NaiveBayesClassifier
    from arraylearn.bayes import bayes_rule as bayes_rule
    from arraylearn.boosting import AdaBoostClassifier as AdaBoostClassifier
    from arraylearn.boosting import GradientBoostingClassifier as GradientBoostingClassifier
    from arraylearn.explain import permutation_importance as permutation_importance
    from arraylearn.forest import ExtraTreesClassifier as ExtraTreesClassifier
    from arraylearn.forest import RandomForestClassifier as RandomForestClassifier
    from arraylearn.io import load as load
    from arraylearn.io import save as save
    from arraylearn.rules import RipperClassifier as RipperClassifier
    from arraylearn.rules import RuleSetClassifier as RuleSetClassifier
    from arraylearn.rules import SequentialCoveringClassifier as SequentialCoveringClassifier
    from arraylearn.selection import GridSearch as GridSearch
    from arraylearn.selection import evaluate as evaluate
    from arraylearn.selection import leave_one_out as leave_one_out
    from arraylearn.selection import resample as resample
    from arraylearn.svm import SVC as SVC
    from arraylearn.svm import SVDD as SVDD
    from arraylearn.svm import OneClassSVM as OneClassSVM
    from arraylearn.tree import DecisionTreeClassifier as DecisionTreeClassifier
    from arraylearn.tree import c45 as c45
    from arraylearn.tree import cart as cart
    from arraylearn.tree import id3 as id3
    from arraylearn.tree import pruning as pruning

# module -> the public names that it defines
_NAMES = {
    "backend": (
        "BackendFallbackWarning",
        "BackendUnavailableError",
        "LongRunWarning",
        "MemoryBudgetError",
        "backend_info",
        "get_backend",
        "get_compiled",
        "get_memory_budget",
        "get_num_threads",
        "set_backend",
        "set_compiled",
        "set_memory_budget",
        "set_num_threads",
        "use_backend",
    ),
    "bayes": ("FullBayesClassifier", "NaiveBayesClassifier", "bayes_rule"),
    "boosting": ("AdaBoostClassifier", "GradientBoostingClassifier"),
    "explain": ("permutation_importance",),
    "forest": ("ExtraTreesClassifier", "RandomForestClassifier"),
    "io": ("load", "save"),
    "rules": ("RipperClassifier", "RuleSetClassifier", "SequentialCoveringClassifier"),
    "selection": ("GridSearch", "evaluate", "leave_one_out", "resample"),
    "svm": ("SVC", "SVDD", "OneClassSVM"),
    "tree": ("DecisionTreeClassifier", "c45", "cart", "id3"),
}
# modules that are public themselves
_ROOMS = (
    "bayes",
    "boosting",
    "datasets",
    "explain",
    "forest",
    "gaussian",
    "io",
    "kernels",
    "measures",
    "plot",
    "rules",
    "selection",
    "svm",
    "table",
    "tree",
)
# public name -> module that defines it, or that it is
_HOMES = {name: f"arraylearn.{module}" for module, names in _NAMES.items() for name in names}
_HOMES |= {name: f"arraylearn.{name}" for name in _ROOMS} | {"pruning": "arraylearn.tree.pruning"}

__all__ = ["__version__", *_HOMES]


if not TYPE_CHECKING:  # a type checker would take any name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'arraylearn' has no attribute {name!r}")
        module = importlib.import_module(_HOMES[name])
        value = module if module.__name__.endswith(f".{name}") else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
