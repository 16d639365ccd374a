"""What the array API standard lacks: one contract and one portable body each, native bodies beside.

Every function takes the namespace first, never waits for the device, and never looks at values to choose a
shape. Out-of-range keys and segments are the caller's error; nothing here checks them, because a check would
wait for the device.
"""

from arraylearn.backend.ops.apart import map_apart
from arraylearn.backend.ops.binned_trees import BinnedTrees, sum_leaves
from arraylearn.backend.ops.bins import gini_bins
from arraylearn.backend.ops.blocks import (
    block_index,
    block_max,
    first_in_block,
    gini_gains,
    gini_scores,
    scatter,
    split_lists,
    steps,
)
from arraylearn.backend.ops.boosted_growth import (
    BoostedColumns,
    BoostedNodes,
    BoostedRules,
    grow_boosted_trees,
)
from arraylearn.backend.ops.boosting import (
    BlockSplits,
    add_to_sides,
    block_histograms,
    histogram_cells,
    split_blocks,
)
from arraylearn.backend.ops.cells import best_cells, count_cells, count_rows, pack_cells
from arraylearn.backend.ops.cuts import CutRules, Draws, best_cuts, cut_scores, divide_rows
from arraylearn.backend.ops.descent import follow_thresholds
from arraylearn.backend.ops.distinct import number_values
from arraylearn.backend.ops.forest import reach_leaves
from arraylearn.backend.ops.fused import gaussian_gram, polynomial_gram
from arraylearn.backend.ops.gini_split import gini_split, split_lists_at
from arraylearn.backend.ops.gradients import (
    GRADIENT_BITS,
    SCORE_BITS,
    Gradients,
    GradientTables,
    gradient_tables,
    log_loss_gradients,
    unpack,
)
from arraylearn.backend.ops.grown import ForestGrowth, GrownTrees, grow_whole_trees, is_grown_whole
from arraylearn.backend.ops.linear import cholesky, logsumexp, solve_triangular
from arraylearn.backend.ops.memory import scratch
from arraylearn.backend.ops.moments import grouped_moments, merge_moments
from arraylearn.backend.ops.order import argsort_rows, bin_columns, compress, partition, top_k
from arraylearn.backend.ops.quadratic import (
    combine_rows,
    gather_block,
    inverse_curvature_roots,
    inverse_definite,
    pair_steps,
    project,
    put,
    small_products,
    solve_box_block,
)
from arraylearn.backend.ops.segments import histogram, paired_histogram, segment_max, segment_sum
from arraylearn.backend.ops.smoothed import minimize_smoothed
from arraylearn.backend.ops.splits import Constraint, Splits, best_splits
from arraylearn.backend.ops.squares import diagonal_squares, whitened_exponents
from arraylearn.backend.ops.subtrees import Growth, Subtrees, grow_bins, grow_lists
from arraylearn.backend.ops.thresholds import best_thresholds, first_best, pick_in_lines
from arraylearn.backend.ops.walks import ForestWalk, prepare_walk, sum_shares
from arraylearn.backend.ops.weighted import WeightedSplits, running_weights, weighted_splits

__all__ = [
    "GRADIENT_BITS",
    "SCORE_BITS",
    "BinnedTrees",
    "BlockSplits",
    "BoostedColumns",
    "BoostedNodes",
    "BoostedRules",
    "Constraint",
    "CutRules",
    "Draws",
    "ForestGrowth",
    "ForestWalk",
    "GradientTables",
    "Gradients",
    "GrownTrees",
    "Growth",
    "Splits",
    "Subtrees",
    "WeightedSplits",
    "add_to_sides",
    "argsort_rows",
    "best_cells",
    "best_cuts",
    "best_splits",
    "best_thresholds",
    "bin_columns",
    "block_histograms",
    "block_index",
    "block_max",
    "cholesky",
    "combine_rows",
    "compress",
    "count_cells",
    "count_rows",
    "cut_scores",
    "diagonal_squares",
    "divide_rows",
    "first_best",
    "first_in_block",
    "follow_thresholds",
    "gather_block",
    "gaussian_gram",
    "gini_bins",
    "gini_gains",
    "gini_scores",
    "gini_split",
    "gradient_tables",
    "grouped_moments",
    "grow_bins",
    "grow_boosted_trees",
    "grow_lists",
    "grow_whole_trees",
    "histogram",
    "histogram_cells",
    "inverse_curvature_roots",
    "inverse_definite",
    "is_grown_whole",
    "log_loss_gradients",
    "logsumexp",
    "map_apart",
    "merge_moments",
    "minimize_smoothed",
    "number_values",
    "pack_cells",
    "pair_steps",
    "paired_histogram",
    "partition",
    "pick_in_lines",
    "polynomial_gram",
    "prepare_walk",
    "project",
    "put",
    "reach_leaves",
    "running_weights",
    "scatter",
    "scratch",
    "segment_max",
    "segment_sum",
    "small_products",
    "solve_box_block",
    "solve_triangular",
    "split_blocks",
    "split_lists",
    "split_lists_at",
    "steps",
    "sum_leaves",
    "sum_shares",
    "top_k",
    "unpack",
    "weighted_splits",
    "whitened_exponents",
]
