"""Pruning: a grown tree in, a smaller one out."""

from arraylearn.tree.pruning.apply import PRUNINGS
from arraylearn.tree.pruning.confidence import prune_confidence
from arraylearn.tree.pruning.cost_complexity import (
    AlphaChoice,
    CostComplexityPath,
    cost_complexity_path,
    prune_cost_complexity,
)
from arraylearn.tree.pruning.held_out import count_held_out
from arraylearn.tree.pruning.independence import prune_chi2
from arraylearn.tree.pruning.mdl import prune_mdl
from arraylearn.tree.pruning.pessimistic import prune_pessimistic
from arraylearn.tree.pruning.pruning_report import PruningReport, PruningStep, pruning_report
from arraylearn.tree.pruning.reduced_error import prune_reduced_error

__all__ = [
    "PRUNINGS",
    "AlphaChoice",
    "CostComplexityPath",
    "PruningReport",
    "PruningStep",
    "cost_complexity_path",
    "count_held_out",
    "prune_chi2",
    "prune_confidence",
    "prune_cost_complexity",
    "prune_mdl",
    "prune_pessimistic",
    "prune_reduced_error",
    "pruning_report",
]
