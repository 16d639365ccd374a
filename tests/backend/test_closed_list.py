"""What the backend gives to other rooms is a closed list, and nothing of learning is added to it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import arraylearn

PACKAGE = Path(arraylearn.__file__).parent

# Arrays, places, memory, threads, random numbers: module of arraylearn.backend -> names.
GENERIC = {
    "": "backend_info get_num_threads",
    "arrays.blocks": "block_index block_max first_in_block scatter split_lists steps",
    "arrays.fused": "gaussian_gram integer_power polynomial_gram",
    "arrays.gather": "combine_rows gather_block put",
    "arrays.linear": "cholesky inverse_definite logsumexp solve_triangular",
    "arrays.moments": "grouped_moments merge_moments Moments",
    "arrays.order": "argsort_rows bin_columns compress partition top_k",
    "arrays.parallel": "map_apart small_products",
    "arrays.ragged": "count_categories look_up_sums",
    "arrays.scratch": "KeptBuffers scratch",
    "arrays.segments": "histogram paired_histogram segment_max segment_sum",
    "arrays.squares": "diagonal_squares whitened_exponents",
    "blas": "parallel_blocks",
    "compiling": "CompiledMode describe_compiled is_numba_installed is_worth_compiling use_compiled",
    "counting": "count_operations Counts",
    "cpu.jit": "entry Host part Whole",
    "cpu.unsigned": "index signed",
    "errors": "MemoryBudgetError warn_caller",
    "memory": "get_memory_budget row_chunks with_smaller_chunks",
    "namespace": (
        "accumulator_dtype as_float bring find_place from_host HOST is_array is_on_gpu is_on_host locate "
        "move native_float Place read_flags same_place supports_float64 synchronize to_host"
    ),
    "peak": "measure_peak",
    "probe": "parse",
    "random": "as_generator permutation RandomState spawn splitmix",
    "selector": "choose_place resolve",
    "threads": "get_num_threads parallel_map same_threads",
    "transfer": "copy_together read_together",
}

# What knows nodes, gradients, rules or dual variables. It leaves with the growing core: the list may only
# shrink.
LEAVING = {
    "ops.binned_trees": "BinnedTrees sum_leaves",
    "ops.boosted_growth": "BoostedColumns BoostedNodes BoostedRules grow_boosted_trees",
    "ops.boosting": "add_to_sides block_histograms BlockSplits histogram_cells split_blocks",
    "ops.cells": "best_cells count_cells count_rows pack_cells",
    "ops.cuts": "best_cuts cut_scores CutRules divide_rows Draws",
    "ops.descent": "follow_thresholds",
    "ops.distinct": "number_values",
    "ops.forest": "reach_leaves",
    "ops.gradients": (
        "GRADIENT_BITS gradient_tables Gradients GradientTables log_loss_gradients SCORE_BITS unpack"
    ),
    "ops.grown": "ForestGrowth grow_whole_trees GrownTrees is_grown_whole",
    "ops.quadratic": "inverse_curvature_roots pair_steps project solve_box_block",
    "ops.smoothed": "minimize_smoothed",
    "ops.splits": "best_splits Constraint Splits",
    "ops.subtrees": "grow_bins Growth",
    "ops.thresholds": "best_thresholds first_best pick_in_lines",
    "ops.walks": "ForestWalk prepare_walk sum_shares",
}


def imported():
    """Collect what modules outside of the backend import from it, by module."""
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] in ("backend", "__init__.py"):  # the latter: public names
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
                assert not any(name.startswith("arraylearn.backend") for name in modules), path
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("arraylearn.backend"):
                module = node.module.removeprefix("arraylearn.backend").removeprefix(".")
                found[module] |= {alias.name for alias in node.names}
    return found


def listed():
    both = [*GENERIC.items(), *LEAVING.items()]
    return {module: set(names.split()) for module, names in both}


def test_other_rooms_import_what_is_listed():
    found, known = imported(), listed()
    new = {module: names - known.get(module, set()) for module, names in found.items()}
    assert not {module: names for module, names in new.items() if names}, "the backend has a closed list"


def test_nothing_is_listed_that_no_room_imports():
    found = imported()
    old = {module: names - found.get(module, set()) for module, names in listed().items()}
    assert not {module: names for module, names in old.items() if names}, "take it from the list"


def test_nothing_generic_comes_from_the_primitives_that_leave():
    assert not [module for module in GENERIC if module.startswith("ops")]
    assert all(module.startswith("ops.") for module in LEAVING)
    assert sum(len(names.split()) for names in LEAVING.values()) <= 50
