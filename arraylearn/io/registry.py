"""The closed list of what a model file may hold: a tag for each class, never a name to import.

Tags are part of the file format: a class may be moved or renamed, its tag stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from arraylearn.backend.arrays.moments import Moments
from arraylearn.backend.threads import check_jobs
from arraylearn.bayes import FullBayesClassifier, NaiveBayesClassifier
from arraylearn.bayes.full import FullModel, FullStatistics
from arraylearn.bayes.naive import NaiveModel, NaiveStatistics
from arraylearn.bayes.precision import DistinctValues
from arraylearn.boosting import AdaBoostClassifier, GradientBoostingClassifier
from arraylearn.boosting.adaboost import Rounds
from arraylearn.boosting.boosted import Boosted
from arraylearn.forest import ExtraTreesClassifier, RandomForestClassifier
from arraylearn.forest.grove import Forest, Grove
from arraylearn.grow.histograms.clouds import CloudsReport
from arraylearn.grow.trees import Surrogates, Trees
from arraylearn.io.check_bayes import check_full_bayes, check_naive_bayes
from arraylearn.io.check_rules import check_rules
from arraylearn.io.check_svm import check_one_class, check_svc, check_svdd
from arraylearn.io.check_trees import check_adaboost, check_boosting, check_forest, check_tree
from arraylearn.io.fields import Fields
from arraylearn.kernels import objects as kernels
from arraylearn.rules import RipperClassifier, RuleSetClassifier, SequentialCoveringClassifier
from arraylearn.rules.decide import Matcher, RuleModel
from arraylearn.rules.rule import Literal, Rule
from arraylearn.svm import SVC, SVDD, OneClassSVM
from arraylearn.svm.machine import Machine
from arraylearn.svm.probability import Sigmoids
from arraylearn.svm.tasks import LastFit, Task
from arraylearn.table import Column, Schema
from arraylearn.table.binning import Binning
from arraylearn.tree import DecisionTreeClassifier, pruning
from arraylearn.tree.pruning.cost_complexity import AlphaChoice, CostComplexityPath
from arraylearn.tree.pruning.pruning_report import PruningReport, PruningStep, Size

__all__ = ["ESTIMATORS", "ESTIMATOR_TAGS", "RECORDS", "RECORD_TAGS", "check_estimator"]

Check = Callable[[Fields], None]

# tag -> estimator, and the check of its fitted attributes
ESTIMATORS: dict[str, tuple[type, Check]] = {
    "adaboost": (AdaBoostClassifier, check_adaboost),
    "boosting": (GradientBoostingClassifier, check_boosting),
    "covering": (SequentialCoveringClassifier, check_rules),
    "extra_trees": (ExtraTreesClassifier, check_forest),
    "forest": (RandomForestClassifier, check_forest),
    "full_bayes": (FullBayesClassifier, check_full_bayes),
    "naive_bayes": (NaiveBayesClassifier, check_naive_bayes),
    "one_class_svm": (OneClassSVM, check_one_class),
    "ripper": (RipperClassifier, check_rules),
    "rule_set": (RuleSetClassifier, check_rules),
    "svc": (SVC, check_svc),
    "svdd": (SVDD, check_svdd),
    "tree": (DecisionTreeClassifier, check_tree),
}

# tag -> record; each is checked as a part of the estimator that holds it
RECORDS: dict[str, type] = {
    "alpha_choice": AlphaChoice,
    "binning": Binning,
    "boosted": Boosted,
    "clouds_report": CloudsReport,
    "column": Column,
    "cost_complexity_path": CostComplexityPath,
    "distinct_values": DistinctValues,
    "forest_trees": Forest,
    "full_bayes_model": FullModel,
    "full_bayes_statistics": FullStatistics,
    "grove": Grove,
    "kernel_gaussian": kernels.Gaussian,
    "kernel_linear": kernels.Linear,
    "kernel_polynomial": kernels.Polynomial,
    "kernel_precomputed": kernels.Precomputed,
    "kernel_product": kernels.Product,
    "kernel_scaled": kernels.Scaled,
    "kernel_sigmoid": kernels.Sigmoid,
    "kernel_sum": kernels.Sum,
    "last_svm_fit": LastFit,
    "literal": Literal,
    "machine": Machine,
    "matcher": Matcher,
    "moments": Moments,
    "naive_bayes_model": NaiveModel,
    "naive_bayes_statistics": NaiveStatistics,
    "pruning_chi2": pruning.ChiSquare,
    "pruning_confidence": pruning.Confidence,
    "pruning_cost_complexity": pruning.CostComplexity,
    "pruning_mdl": pruning.DescriptionLength,
    "pruning_pessimistic": pruning.Pessimistic,
    "pruning_reduced_error": pruning.ReducedError,
    "pruning_report": PruningReport,
    "pruning_step": PruningStep,
    "rounds": Rounds,
    "rule": Rule,
    "rule_model": RuleModel,
    "schema": Schema,
    "sigmoids": Sigmoids,
    "surrogates": Surrogates,
    "svm_task": Task,
    "tree_size": Size,
    "trees": Trees,
}

ESTIMATOR_TAGS = {kind: tag for tag, (kind, _) in ESTIMATORS.items()}
RECORD_TAGS = {kind: tag for tag, kind in RECORDS.items()}


def check_estimator(model: Any) -> None:
    """Check the fitted attributes of an estimator, and how many threads predict; arrays are on the host."""
    tag = ESTIMATOR_TAGS[type(model)]
    parameters = model.get_params(deep=False)
    check_jobs(parameters.get("n_jobs"))
    fitted = {name: value for name, value in model.__getstate__().items() if name not in parameters}
    fitted.pop("_sklearn_version", None)
    if not fitted:
        return
    fields = Fields(tag, fitted)
    ESTIMATORS[tag][1](fields)
    fields.finish()
