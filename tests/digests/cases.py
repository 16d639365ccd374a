"""Every learner with every option, by name."""

from __future__ import annotations

from tests.digests.around_models import importance_cases, selection_cases, table_cases
from tests.digests.ensembles import adaboost_cases, boosting_cases, forest_cases
from tests.digests.float_sums import float_cases
from tests.digests.large import big_cases
from tests.digests.rule_learners import rule_cases
from tests.digests.trees import tree_cases

__all__ = ["CASES"]

CASES = {
    case.name: case
    for cases in (
        tree_cases(),
        forest_cases(),
        boosting_cases(),
        adaboost_cases(),
        rule_cases(),
        float_cases(),
        selection_cases(),
        table_cases(),
        importance_cases(),
        big_cases(),
    )
    for case in cases
}
