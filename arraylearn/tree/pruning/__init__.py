"""Ways to prune: objects for `pruning` of a tree, and functions, a grown tree in, a smaller one out."""

from arraylearn.tree.pruning.apply import PRUNINGS, Pruning
from arraylearn.tree.pruning.confidence import Confidence, prune_confidence
from arraylearn.tree.pruning.cost_complexity import (
    AlphaChoice,
    CostComplexity,
    CostComplexityPath,
    cost_complexity_path,
    prune_cost_complexity,
)
from arraylearn.tree.pruning.held_out import count_held_out
from arraylearn.tree.pruning.independence import ChiSquare, prune_chi2
from arraylearn.tree.pruning.mdl import DescriptionLength, prune_mdl
from arraylearn.tree.pruning.pessimistic import Pessimistic, prune_pessimistic
from arraylearn.tree.pruning.pruning_report import PruningReport, PruningStep, pruning_report
from arraylearn.tree.pruning.reduced_error import ReducedError, prune_reduced_error

__all__ = [
    "PRUNINGS",
    "AlphaChoice",
    "ChiSquare",
    "Confidence",
    "CostComplexity",
    "CostComplexityPath",
    "DescriptionLength",
    "Pessimistic",
    "Pruning",
    "PruningReport",
    "PruningStep",
    "ReducedError",
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
