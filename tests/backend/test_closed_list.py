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
    "arrays.distances": "diagonal_squares whitened_exponents",
    "arrays.gather": "combine_rows gather_block put top_k",
    "arrays.gram": "gaussian_gram integer_power polynomial_gram",
    "arrays.linear": "cholesky inverse_definite logsumexp solve_triangular",
    "arrays.moments": "grouped_moments merge_moments Moments",
    "arrays.order": "argsort_rows bin_columns compress number_values",
    "arrays.ragged": "count_categories look_up_sums",
    "arrays.segments": (
        "block_index block_max first_in_block histogram LEFT_OUT NO_HIT paired_histogram scatter "
        "segment_max segment_sum split_lists steps"
    ),
    "costs": "count_operations measure_peak OperationCounts",
    "cpu.intrinsics": "choose_words larger mark_rows prefetch WORDS",
    "cpu.jit": (
        "Bool compiled compiled_loosely entry Float Host HostOrNone index inlined Int loose_part loops_for "
        "part signed"
    ),
    "dispatch": (
        "CompiledMode describe_compiled get_tuning is_numba_installed is_worth_compiling "
        "native numpy_body state_work stated_work use_compiled why_not_compiled"
    ),
    "errors": "LongRunWarning MemoryBudgetError warn_caller",
    "gpu.launch": "c_type cuda_launcher CudaKernel Launch",
    "memory": "get_memory_budget is_out_of_memory row_chunks scratch with_smaller_chunks",
    "namespace": (
        "accumulator_dtype as_float bring copy_together from_host HOST is_array is_on_gpu "
        "is_on_host library_name locate move native_float Place read_flags read_together same_place "
        "supports_float64 synchronize to_host"
    ),
    "probe": "parse",
    "random": "as_generator permutation RandomState spawn",
    "selector": "choose_place find_places resolve",
    "spinner": "only_one spinning",
    "threads": (
        "available_cores check_jobs even_portions free_threads get_num_threads limited_threads map_apart "
        "parallel_blocks parallel_map run_jobs same_threads small_products"
    ),
}

# Words of learning. Except: thresholds of all rooms, torch's trees of arguments.
LEARNING = {"tree", "trees", "forest", "boosting", "gini", "gradient", "gradients", "leaf", "leaves", "prune"}
EXCEPT = {"dispatch.py", "costs.py"}


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
    return {module: set(names.split()) for module, names in GENERIC.items()}


def test_other_rooms_import_what_is_listed():
    found, known = imported(), listed()
    new = {module: names - known.get(module, set()) for module, names in found.items()}
    assert not {module: names for module, names in new.items() if names}, "the backend has a closed list"


def test_nothing_is_listed_that_no_room_imports():
    found = imported()
    old = {module: names - found.get(module, set()) for module, names in listed().items()}
    assert not {module: names for module, names in old.items() if names}, "take it from the list"


def test_the_backend_has_no_name_of_learning():
    backend = PACKAGE / "backend"
    found = {}
    for path in backend.rglob("*.py"):
        names = {
            part
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (getattr(node, "id", ""), getattr(node, "name", ""), getattr(node, "arg", ""))
            for part in str(name).lower().strip("_").split("_")
        }
        if names & LEARNING and path.relative_to(backend).as_posix() not in EXCEPT:
            found[path.name] = names & LEARNING
    assert not found
