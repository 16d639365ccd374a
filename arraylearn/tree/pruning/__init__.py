"""Ways to prune: objects for `pruning` of a tree, and for `prune`: a grown tree in, a smaller one out."""

from arraylearn.tree.pruning.apply import PRUNINGS, Pruning, prune
from arraylearn.tree.pruning.confidence import Confidence
from arraylearn.tree.pruning.cost_complexity import (
    AlphaChoice,
    CostComplexity,
    CostComplexityPath,
    cost_complexity_path,
)
from arraylearn.tree.pruning.held_out import count_held_out
from arraylearn.tree.pruning.independence import ChiSquare
from arraylearn.tree.pruning.mdl import DescriptionLength
from arraylearn.tree.pruning.pessimistic import Pessimistic
from arraylearn.tree.pruning.pruning_report import PruningReport, PruningStep, pruning_report
from arraylearn.tree.pruning.reduced_error import ReducedError

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
    "prune",
    "pruning_report",
]
