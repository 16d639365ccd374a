"""One small case per public kernel and primitive: the list that self-tests run on every backend.

Each case makes its inputs on the host from a seed and calls a kernel with arrays of any library. Running it
on a backend and on NumPy must give the same numbers, up to rounding; integers and booleans exactly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from arraylearn import kernels, measures
from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.gather import combine_rows, gather_block, put, top_k
from arraylearn.backend.arrays.linear import cholesky, inverse_definite, logsumexp, solve_triangular
from arraylearn.backend.arrays.moments import grouped_moments, merge_moments
from arraylearn.backend.arrays.order import argsort_rows, bin_columns, compress
from arraylearn.backend.arrays.ragged import count_categories, look_up_sums
from arraylearn.backend.arrays.segments import histogram, paired_histogram, segment_max, segment_sum
from arraylearn.backend.namespace import locate
from arraylearn.boosting.log_loss import gradient_tables, log_loss_gradients
from arraylearn.gaussian import diagonal_log_density, factor_covariances, full_log_density
from arraylearn.gaussian.class_moments import covariances
from arraylearn.grow.drawn_columns.cuts import CutRules, Draws, best_cuts
from arraylearn.grow.histograms.gradient_splits import best_splits
from arraylearn.grow.sorted_lists.lists import SortedRows, search_lists
from arraylearn.selftest.case_inputs import (
    NODE_SIZES,
    binned_rows,
    box_problem,
    count_table,
    definite_matrices,
    forest_nodes,
    keyed_values,
    labelled_rows,
    scored_rows,
    sorted_lists,
    two_row_sets,
    with_gaps,
)
from arraylearn.svm.solvers.newton import SmoothedPrimal, minimize_smoothed
from arraylearn.svm.solvers.pairs import Block, inverse_curvature_roots, pair_steps, project
from arraylearn.tree.histogram import count_classes
from arraylearn.tree.scores import score_thresholds

__all__ = ["KernelCase", "kernel_cases"]

# The first cell of each column of "codes", six for each, and the number of all.
_CELLS = (0, 6, 12, 18)


class KernelCase(NamedTuple):
    """A kernel with inputs to try it on."""

    name: str
    make_inputs: Callable[[int], dict[str, Any]]  # seed -> NumPy arrays by argument name
    call: Callable[..., Array | tuple[Array, ...]]  # (xp, **arrays) -> result


def kernel_cases() -> Iterator[KernelCase]:
    """Yield a case for every public kernel and every primitive it stands on."""
    yield from _primitive_cases()
    yield from _measure_cases()
    yield from _tree_cases()
    yield from _boosting_cases()
    yield from _gram_cases()
    yield from _gaussian_cases()


def _case(
    name: str, make: Callable[[int], dict[str, Any]], call: Callable[..., Array | tuple[Array, ...]]
) -> KernelCase:
    """Make a case whose inputs are those of `make` that `call` has parameters for, after `xp`."""
    parameters = list(inspect.signature(call).parameters.values())[1:]
    names = [one.name for one in parameters if one.default is inspect.Parameter.empty]

    def make_inputs(seed: int) -> dict[str, Any]:
        made = make(seed)
        return {one: made[one] for one in names}

    return KernelCase(name, make_inputs, call)


def _split_listed(
    xp: Namespace, lists: Array, columns: Array, weights: Array, block_at: Array
) -> tuple[Array, ...]:
    ends = (70, 130, lists.shape[1])
    by_class = (weights[first:end] for first, end in pairwise((0, *ends)))
    counts = xp.stack([xp.sum(part) for part in by_class])[None, :]
    rows = SortedRows(lists, columns, ends, weights)
    return tuple(search_lists(xp, rows, block_at[:1], block_at, counts, least=2))


def _primitive_cases() -> Iterator[KernelCase]:
    one = partial(_case, make=keyed_values)
    yield one("segment_sum", call=lambda xp, values, keys: segment_sum(xp, values, keys, 7))
    yield one("segment_max", call=lambda xp, integers, keys: segment_max(xp, integers, keys, 9))
    yield one("histogram", call=lambda xp, keys: histogram(xp, keys, 7))
    yield one(
        "paired_histogram",
        call=lambda xp, columns, keys, values: (
            paired_histogram(xp, columns, keys, 16, 7),
            paired_histogram(xp, columns, keys, 16, 7, values),
        ),
    )
    yield one(
        "count_categories",
        call=lambda xp, codes, keys, values: (
            count_categories(xp, codes, _CELLS, keys, 7),
            count_categories(xp, codes, _CELLS, keys, 7, values),
        ),
    )
    yield one(
        "look_up_sums",
        call=lambda xp, codes, values: look_up_sums(xp, codes, _CELLS, xp.reshape(values[:36], (18, 2))),
    )
    yield one("argsort_rows", call=lambda xp, columns: argsort_rows(xp, columns))
    yield one("compress", call=lambda xp, values, keep: compress(xp, values, keep, 200))
    yield one("top_k", call=lambda xp, integers: top_k(xp, integers, 11))
    yield _case("bin_columns", labelled_rows, _bin_by_means)
    yield _case("cholesky", definite_matrices, lambda xp, matrix: cholesky(xp, matrix))
    yield _case(
        "solve_triangular",
        definite_matrices,
        lambda xp, matrix, right: solve_triangular(xp, cholesky(xp, matrix)[0], right),
    )
    yield _case("logsumexp", two_row_sets, lambda xp, x: logsumexp(xp, x, axis=-1))
    yield from _support_vector_cases()
    yield from _forest_cases()


def _as_integers(xp: Namespace, scores: Array) -> Array:
    """Turn scores, which are float32 with the same bits everywhere, into integers to be compared."""
    return xp.astype(scores * 1024.0, xp.int64)


def _cuts(xp: Namespace, *arguments: Any) -> tuple[Array, ...]:
    score, *others = best_cuts(xp, *arguments)
    return (_as_integers(xp, score), *others)


def _forest_cases() -> Iterator[KernelCase]:
    rules = CutRules(n_bins=900, class_bits=2, payload_bits=4, large=500)

    def cuts(xp: Namespace, bins: Array, entries: Array, features: Array, counts: Array) -> tuple[Array, ...]:
        return _cuts(xp, bins, entries, NODE_SIZES, features, counts, rules)

    def drawn(
        xp: Namespace,
        bins: Array,
        entries: Array,
        features: Array,
        counts: Array,
        numbers: Array,
        positions: Array,
    ) -> tuple[Array, ...]:
        return _cuts(xp, bins, entries, NODE_SIZES, features, counts, rules, Draws(numbers, positions))

    two_classes = partial(forest_nodes, n_classes=2)
    yield _case("best_cuts", forest_nodes, cuts)
    yield _case("best_cuts[drawn]", forest_nodes, drawn)
    yield _case("best_cuts[two classes]", two_classes, cuts)
    yield _case("best_cuts[drawn, two classes]", two_classes, drawn)


def _roots_between_rows(xp: Namespace, matrix: Array) -> Array:
    """Off the diagonal: on it the curvature is zero, and its floor depends on the dtype."""
    roots = inverse_curvature_roots(xp, matrix[None, ...])[0, ...]
    return roots - xp.linalg.diagonal(roots)[:, None] * xp.eye(
        matrix.shape[0], dtype=matrix.dtype, device=locate(matrix).device
    )


def _support_vector_cases() -> Iterator[KernelCase]:
    one = partial(_case, make=box_problem)
    yield one("put", call=lambda xp, rows, kept, weights: put(xp, rows[:, 0], kept, weights))
    yield one("gather_block", call=lambda xp, rows, kept: gather_block(xp, rows, kept, kept % 3))
    yield one("combine_rows", call=lambda xp, rows, kept, weights: combine_rows(xp, rows, kept, weights))
    yield one("inverse_curvature_roots", call=_roots_between_rows)
    yield one("inverse_definite", call=lambda xp, matrix: inverse_definite(xp, matrix))
    yield one("project", call=_project_to_box)
    yield one("pair_steps", call=_five_pair_steps)
    yield one("minimize_smoothed", call=_minimize_smoothed)


def _project_to_box(xp: Namespace, rows: Array, lower: Array, upper: Array) -> Array:
    return project(xp, rows[:, 0], 0.5 * (lower + upper), lower, upper, rows[:, 1] > -1.0)


def _five_pair_steps(xp: Namespace, matrix: Array, sign: Array, lower: Array, upper: Array) -> Array:
    matrix, sign, lower, upper = (values[None, ...] for values in (matrix, sign, lower, upper))
    block = Block(matrix, lower, upper, inverse_curvature_roots(xp, matrix))
    point, gradient, _ = pair_steps(xp, block, sign, 0.0 * sign, tol=1e-3, n_steps=5)
    return point + gradient


def _minimize_smoothed(
    xp: Namespace, rows: Array, sign: Array, lower: Array, upper: Array, start: Array
) -> Array:
    primal = SmoothedPrimal(rows, sign, lower, upper, 0.0 * start, ridge=0.5)
    for _ in range(3):  # a body may take fewer steps than it may
        start, _, _ = minimize_smoothed(xp, primal, start, max_steps=50)
    return start


def _bin_by_means(xp: Namespace, x: Array, mean: Array) -> Array:
    edges = xp.sort(xp.matrix_transpose(mean), axis=1)
    return bin_columns(xp, x, edges, missing_bin=9)


def _measure_cases() -> Iterator[KernelCase]:
    for name, impurity in measures.IMPURITIES.items():
        yield _case(f"measures.{name}", count_table, lambda xp, counts, f=impurity: f(xp, counts))
    for measure in measures.MEASURES.values():
        name = f"measures.{measure.__name__}"  # "gini" names an impurity and a criterion
        yield _case(name, count_table, lambda xp, counts, f=measure: f(xp, counts))


def _tree_cases() -> Iterator[KernelCase]:
    count = partial(count_classes, n_bins=8, n_classes=3, n_nodes=4)
    yield _case(
        "tree.class_histogram",
        binned_rows,
        lambda xp, bins, codes, nodes: count(xp, bins, codes, nodes=nodes),
    )
    yield _case(
        "tree.class_histogram[weights]",
        binned_rows,
        lambda xp, bins, codes, nodes, weights: count(xp, bins, codes, nodes=nodes, weights=weights),
    )
    yield _case("tree.search_lists", sorted_lists, _split_listed)
    for name in measures.MEASURES:
        yield _case(
            f"tree.threshold_scores[{name}]",
            count_table,
            lambda xp, counts, name=name: score_thresholds(xp, counts, name),
        )


def _boosting_cases() -> Iterator[KernelCase]:
    yield _case(
        "log_loss_gradients[two classes]",
        scored_rows,
        lambda xp, scores, codes: _derive(xp, scores, codes, 1),
    )
    yield _case(
        "log_loss_gradients[three classes]",
        scored_rows,
        lambda xp, scores, codes: _derive(xp, scores, codes, 3),
    )
    yield _case("best_splits", scored_rows, _split_nodes)


def _derive(xp: Namespace, scores: Array, codes: Array, n_outputs: int) -> tuple[Array, ...]:
    tables = gradient_tables(xp, locate(scores).device, n_outputs)
    codes = xp.astype(codes == 1, xp.int64) if n_outputs == 1 else codes
    return tuple(log_loss_gradients(xp, tables, scores[:n_outputs, :], codes, None))


def _split_nodes(xp: Namespace, scores: Array, codes: Array, bins: Array, order: Array) -> tuple[Array, ...]:
    """Histograms of two nodes, and their best splits."""
    device = locate(scores).device
    packed, _ = _derive(xp, scores, codes, 1)
    node = xp.astype(xp.arange(order.shape[0], dtype=xp.int64, device=device) >= 120, xp.int64)
    weights = xp.take(packed[0, :], order, axis=0)
    sums = paired_histogram(xp, xp.take(bins, order, axis=1), node, 8, 2, weights)
    running = xp.cumulative_sum(xp.permute_dims(sums, (1, 0, 2)), axis=-1)
    regular = xp.asarray([1.0, 1.0, 1.0, 1.0], dtype=xp.float32, device=device)
    share = xp.asarray([0.01, 0.01], dtype=xp.float32, device=device)
    best = best_splits(xp, running, regular, share, None, n_numeric=4, missing=(1,))
    return running, best.cell, best.left, best.total


def _gram_cases() -> Iterator[KernelCase]:
    objects = {
        "linear": kernels.Linear(),
        "polynomial": kernels.Polynomial(3, 1.0, 0.5),
        "gaussian": kernels.Gaussian(0.3),
        "sigmoid": kernels.Sigmoid(0.1, 0.2),
        "combined": 2.0 * kernels.Gaussian(width=2.0) * kernels.Linear() + kernels.Polynomial(2),
    }
    for name, kernel in objects.items():
        yield _case(
            f"kernels.gram[{name}]",
            two_row_sets,
            lambda xp, x, z, k=kernel: (k.gram(xp, x, z), k.gram(xp, x), k.diagonal(xp, x)),
        )
    yield _case(
        "kernels.resolve_gamma",
        two_row_sets,
        lambda xp, x, z: kernels.Gaussian(kernels.resolve_gamma(xp, x, "scale")).gram(xp, x, z),
    )


def _gaussian_cases() -> Iterator[KernelCase]:
    with_missing = with_gaps(labelled_rows)
    yield _case("gaussian.moments[diagonal]", labelled_rows, _moments())
    yield _case("gaussian.moments[full]", labelled_rows, _moments(full=True))
    yield _case("gaussian.moments[missing]", with_missing, _moments(skip_missing=True))
    yield _case(
        "gaussian.log_density",
        labelled_rows,
        lambda xp, x, mean, cov: full_log_density(xp, factor_covariances(xp, mean, cov), x),
    )
    for by_product in (False, True):
        density = partial(diagonal_log_density, by_product=by_product)
        name = f"gaussian.diagonal_log_density[{'product' if by_product else 'direct'}"
        yield _case(f"{name}]", labelled_rows, lambda xp, x, mean, var, f=density: f(xp, x, mean, var))
        yield _case(
            f"{name}, missing]",
            with_missing,
            lambda xp, x, mean, var, f=density: f(xp, x, mean, var, skip_missing=True),
        )


def _moments(**options: bool) -> Callable[..., tuple[Array, ...]]:
    def call(xp: Namespace, x: Array, codes: Array, weights: Array) -> tuple[Array, ...]:
        together = grouped_moments(xp, x, codes, 3, weights, **options)
        parts = [
            grouped_moments(xp, x[rows, :], codes[rows], 3, weights[rows], **options)
            for rows in (slice(0, 150), slice(150, None))
        ]
        merged = merge_moments(xp, *parts)
        return (*together, *merged, covariances(xp, together, divisor="unbiased"))

    return call
