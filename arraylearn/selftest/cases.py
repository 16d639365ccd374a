"""One small case per public kernel and primitive: the list that self-tests run on every backend.

Each case makes its inputs on the host from a seed and calls a kernel with arrays of any library. Running it
on a backend and on NumPy must give the same numbers, up to rounding; integers and booleans exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from arraylearn import kernels, measures
from arraylearn._typing import Array, Namespace
from arraylearn.backend.arrays.bins import bin_columns
from arraylearn.backend.arrays.gather import combine_rows, gather_block, put
from arraylearn.backend.arrays.linear import cholesky, inverse_definite, logsumexp, solve_triangular
from arraylearn.backend.arrays.moments import grouped_moments, merge_moments
from arraylearn.backend.arrays.order import argsort_rows, compress, top_k
from arraylearn.backend.arrays.segments import (
    count_categories,
    histogram,
    look_up_sums,
    paired_histogram,
    segment_max,
    segment_sum,
)
from arraylearn.backend.namespace import locate
from arraylearn.backend.random import as_generator
from arraylearn.boosting.gradients import gradient_tables, log_loss_gradients
from arraylearn.gaussian import diagonal_log_density, factor_covariances, full_log_density
from arraylearn.gaussian.class_moments import covariances
from arraylearn.grow.drawn_columns.cuts import CutRules, Draws, best_cuts, divide_rows
from arraylearn.grow.histograms.gradient_splits import best_splits
from arraylearn.grow.histograms.node_blocks import (
    BlockSplits,
    add_to_sides,
    block_histograms,
    split_blocks,
)
from arraylearn.grow.sorted_lists.lists import SortedRows, search_lists
from arraylearn.svm.solvers.pairs import Block, inverse_curvature_roots, pair_steps, project
from arraylearn.svm.solvers.smoothed import SmoothedPrimal, minimize_smoothed
from arraylearn.tree.histogram import count_classes
from arraylearn.tree.scores import score_thresholds

__all__ = ["KernelCase", "kernel_cases"]

HostArrays = dict[str, Any]

# The first cell of each column of "codes", six for each, and the number of all.
_CELLS = (0, 6, 12, 18)


class KernelCase(NamedTuple):
    """A kernel with inputs to try it on."""

    name: str
    make_inputs: Callable[[int], HostArrays]  # seed -> NumPy arrays by argument name, floats in float64
    call: Callable[..., Array | tuple[Array, ...]]  # (xp, **arrays) -> result


def kernel_cases() -> Iterator[KernelCase]:
    """Yield a case for every public kernel and every primitive it stands on."""
    yield from _primitive_cases()
    yield from _measure_cases()
    yield from _tree_cases()
    yield from _boosting_cases()
    yield from _gram_cases()
    yield from _gaussian_cases()


# ---- inputs


def _keyed(seed: int, m: int = 500) -> HostArrays:
    rng = as_generator(seed)
    return {
        "values": rng.normal(size=m),
        "integers": rng.integers(-50, 50, m),
        "keys": rng.integers(0, 7, m),
        "columns": rng.integers(0, 16, (3, m)).astype("uint8"),
        "keep": rng.permutation(m) < 200,
        "codes": rng.integers(-1, 5, (3, m)).astype("int32"),
    }


def _listed(seed: int, m: int = 200) -> HostArrays:
    rng = as_generator(seed)
    columns = rng.integers(0, 30, (3, m)).astype("float64")
    return {
        "lists": columns.argsort(axis=1, stable=True).astype("int32"),
        "columns": columns,
        "weights": rng.integers(1, 5, m),
        "block_at": 0 * rng.integers(0, 1, m),
    }


def _split_listed(
    xp: Namespace, lists: Array, columns: Array, weights: Array, block_at: Array
) -> tuple[Array, ...]:
    ends = (70, 130, lists.shape[1])
    by_class = (weights[first:end] for first, end in pairwise((0, *ends)))
    counts = xp.stack([xp.sum(part) for part in by_class])[None, :]
    rows = SortedRows(lists, columns, ends, weights)
    return tuple(search_lists(xp, rows, block_at[:1], block_at, counts, least=2))


def _definite(seed: int, k: int = 3, d: int = 4) -> HostArrays:
    rng = as_generator(seed)
    root = rng.normal(size=(k, d, d + 3))
    matrix = root @ root.transpose(0, 2, 1)
    matrix[1, 2, 2] = -1.0  # one that is not positive definite
    return {"matrix": matrix, "right": rng.normal(size=(k, d, 2))}


def _box(seed: int, n: int = 60, d: int = 3) -> HostArrays:
    """Make a small support vector machine with a column of ones, and a kernel matrix of its rows."""
    rng = as_generator(seed)
    x = rng.normal(size=(n, d))
    sign = 2.0 * (x[:, 0] + rng.normal(size=n) > 0) - 1.0
    rows = x @ rng.normal(size=(d, d))
    return {
        "rows": _with_ones(rows),
        "sign": sign,
        "lower": (sign - 1.0) / 2.0,
        "upper": (sign + 1.0) / 2.0,
        "matrix": rows @ rows.T + n * _identity(n),
        "slots": rng.permutation(n)[:7],
        "weights": rng.normal(size=7),
        "start": rng.normal(size=d + 1),
    }


def _with_ones(rows: Any) -> Any:
    return np.concat([rows, np.ones((rows.shape[0], 1))], axis=1)


def _identity(n: int) -> Any:
    return np.eye(n)


def _table(seed: int) -> HostArrays:
    rng = as_generator(seed)
    counts = rng.integers(0, 40, (20, 3, 4))
    counts[0] = 0
    counts[1, 2] = 0
    counts[2, :, 1] = 0
    return {"counts": counts.astype("float64")}


def _binned(seed: int, n: int = 600) -> HostArrays:
    rng = as_generator(seed)
    return {
        "bins": rng.integers(0, 8, (5, n)).astype("uint8"),
        "codes": rng.integers(0, 3, n),
        "nodes": rng.integers(0, 4, n),
        "weights": rng.random(n),
    }


def _rows(seed: int) -> HostArrays:
    rng = as_generator(seed)
    return {"x": rng.normal(size=(2, 30, 5)), "z": rng.normal(size=(2, 20, 5))}


def _classes(seed: int, n: int = 400, d: int = 5, k: int = 3) -> HostArrays:
    rng = as_generator(seed)
    codes = rng.integers(0, k, n)
    root = rng.normal(size=(k, d, d + 3))
    return {
        "x": rng.normal(size=(n, d)) + 2.0 * codes[:, None],
        "codes": codes,
        "weights": rng.random(n),
        "mean": rng.normal(size=(k, d)),
        "var": rng.random((k, d)) + 0.5,
        "cov": root @ root.transpose(0, 2, 1) / d,
    }


def _forest_nodes(seed: int, n_classes: int = 3) -> HostArrays:
    """Rows of three nodes, the first of which looks at groups of bins; weights up to 3."""
    rng = as_generator(seed)
    codes, weights = rng.integers(0, n_classes, 700), rng.integers(1, 4, 700)
    block = rng.permutation(700)
    counts = [
        [int(weights[part][codes[part] == c].sum()) for c in range(n_classes)]
        for part in (block[:600], block[600:640], block[640:])
    ]
    bins = rng.integers(0, 900, (700, 4)).astype("int16")
    bins[:, 0] = rng.permutation(700)
    return {
        "bins": bins,
        "entries": (block << 4) | (weights[block] << 2) | codes[block],
        "features": as_generator(seed).integers(0, 4, (3, 2)),
        "counts": rng.integers(0, 1, (3, n_classes)) + counts,
        "numbers": rng.integers(0, 2**32, (3, 2)),
        "positions": rng.integers(0, 10**6, 3600).cumsum(),
        "cuts": rng.integers([[0], [449]], [[1], [450]]),
        "is_kept": rng.random((2, 1)) < 2,
    }


_NODE_SIZES = (600, 40, 60)


def _only(make: Callable[[int], HostArrays], *names: str) -> Callable[[int], HostArrays]:
    """Keep the named inputs."""

    def make_some(seed: int) -> HostArrays:
        made = make(seed)
        return {name: made[name] for name in names}

    return make_some


def _with_gaps(make: Callable[[int], HostArrays]) -> Callable[[int], HostArrays]:
    """Put NaN into a tenth of `x`."""

    def make_gaps(seed: int) -> HostArrays:
        made = make(seed)
        made["x"][as_generator(seed + 1).random(made["x"].shape) < 0.1] = float("nan")
        return made

    return make_gaps


# ---- cases


def _primitive_cases() -> Iterator[KernelCase]:
    some = _only
    yield KernelCase(
        "segment_sum",
        some(_keyed, "values", "keys"),
        lambda xp, values, keys: segment_sum(xp, values, keys, 7),
    )
    yield KernelCase(
        "segment_max",
        some(_keyed, "integers", "keys"),
        lambda xp, integers, keys: segment_max(xp, integers, keys, 9),
    )
    yield KernelCase("histogram", some(_keyed, "keys"), lambda xp, keys: histogram(xp, keys, 7))
    yield KernelCase(
        "paired_histogram",
        some(_keyed, "columns", "keys", "values"),
        lambda xp, columns, keys, values: (
            paired_histogram(xp, columns, keys, 16, 7),
            paired_histogram(xp, columns, keys, 16, 7, values),
        ),
    )
    yield KernelCase(
        "count_categories",
        some(_keyed, "codes", "keys", "values"),
        lambda xp, codes, keys, values: (
            count_categories(xp, codes, _CELLS, keys, 7),
            count_categories(xp, codes, _CELLS, keys, 7, values),
        ),
    )
    yield KernelCase(
        "look_up_sums",
        some(_keyed, "codes", "values"),
        lambda xp, codes, values: look_up_sums(xp, codes, _CELLS, xp.reshape(values[:36], (18, 2))),
    )
    yield KernelCase("argsort_rows", some(_keyed, "columns"), lambda xp, columns: argsort_rows(xp, columns))
    yield KernelCase(
        "compress",
        some(_keyed, "values", "keep"),
        lambda xp, values, keep: compress(xp, values, keep, 200),
    )
    yield KernelCase("top_k", some(_keyed, "integers"), lambda xp, integers: top_k(xp, integers, 11))
    yield KernelCase("bin_columns", some(_classes, "x", "mean"), _bin_by_means)
    yield KernelCase("cholesky", some(_definite, "matrix"), lambda xp, matrix: cholesky(xp, matrix))
    yield KernelCase(
        "solve_triangular",
        _definite,
        lambda xp, matrix, right: solve_triangular(xp, cholesky(xp, matrix)[0], right),
    )
    yield KernelCase("logsumexp", some(_rows, "x"), lambda xp, x: logsumexp(xp, x, axis=-1))
    yield from _support_vector_cases()
    yield from _forest_cases()


def _as_integers(xp: Namespace, scores: Array) -> Array:
    """Turn scores, which are float32 with the same bits everywhere, into whole numbers to be compared."""
    return xp.astype(scores * 1024.0, xp.int64)


def _cuts(xp: Namespace, *arguments: Any) -> tuple[Array, ...]:
    score, *others = best_cuts(xp, *arguments)
    return (_as_integers(xp, score), *others)


def _forest_cases() -> Iterator[KernelCase]:
    rules = CutRules(n_bins=900, class_bits=2, payload_bits=4, large=500)
    nodes = ("bins", "entries", "features", "counts")
    drawn = (*nodes, "numbers", "positions")
    for name, make in (("", _forest_nodes), ("two classes", partial(_forest_nodes, n_classes=2))):
        yield KernelCase(
            f"best_cuts[{name}]" if name else "best_cuts",
            _only(make, *nodes),
            lambda xp, bins, entries, features, counts: _cuts(
                xp, bins, entries, _NODE_SIZES, features, counts, rules
            ),
        )
        yield KernelCase(
            f"best_cuts[drawn, {name}]" if name else "best_cuts[drawn]",
            _only(make, *drawn),
            lambda xp, bins, entries, features, counts, numbers, positions: _cuts(
                xp, bins, entries, _NODE_SIZES, features, counts, rules, Draws(numbers, positions)
            ),
        )
    yield KernelCase(
        "divide_rows",
        _only(_forest_nodes, "bins", "entries", "cuts", "is_kept"),
        lambda xp, bins, entries, cuts, is_kept: divide_rows(
            xp, bins, entries, (700,), cuts, is_kept, (450, 250), 4
        ),
    )


def _roots_between_rows(xp: Namespace, matrix: Array) -> Array:
    """Off the diagonal: on it the curvature is zero, and its floor depends on the dtype."""
    roots = inverse_curvature_roots(xp, matrix[None, ...])[0, ...]
    return roots - xp.linalg.diagonal(roots)[:, None] * xp.eye(
        matrix.shape[0], dtype=matrix.dtype, device=locate(matrix).device
    )


def _support_vector_cases() -> Iterator[KernelCase]:
    some = _only
    store = some(_box, "rows", "slots", "weights")
    yield KernelCase("put", store, lambda xp, rows, slots, weights: put(xp, rows[:, 0], slots, weights))
    yield KernelCase(
        "gather_block", store, lambda xp, rows, slots, weights: gather_block(xp, rows, slots, slots % 3)
    )
    yield KernelCase(
        "combine_rows", store, lambda xp, rows, slots, weights: combine_rows(xp, rows, slots, weights)
    )
    yield KernelCase(
        "inverse_curvature_roots",
        some(_box, "matrix"),
        _roots_between_rows,
    )
    yield KernelCase(
        "inverse_definite", some(_box, "matrix"), lambda xp, matrix: inverse_definite(xp, matrix)
    )
    yield KernelCase("project", some(_box, "rows", "lower", "upper"), _project_to_box)
    yield KernelCase("pair_steps", some(_box, "matrix", "sign", "lower", "upper"), _five_pair_steps)
    smooth = some(_box, "rows", "sign", "lower", "upper", "start")
    yield KernelCase("minimize_smoothed", smooth, _minimize_smoothed)


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
        yield KernelCase(f"measures.{name}", _table, lambda xp, counts, f=impurity: f(xp, counts))
    for measure in measures.MEASURES.values():
        name = f"measures.{measure.__name__}"  # "gini" names an impurity and a criterion
        yield KernelCase(name, _table, lambda xp, counts, f=measure: f(xp, counts))


def _tree_cases() -> Iterator[KernelCase]:
    yield KernelCase(
        "tree.class_histogram",
        _only(_binned, "bins", "codes", "nodes"),
        lambda xp, **rows: count_classes(xp, n_bins=8, n_classes=3, n_nodes=4, **rows),
    )
    yield KernelCase(
        "tree.class_histogram[weights]",
        _binned,
        lambda xp, **rows: count_classes(xp, n_bins=8, n_classes=3, n_nodes=4, **rows),
    )
    yield KernelCase("tree.search_lists", _listed, _split_listed)
    for name in measures.MEASURES:
        yield KernelCase(
            f"tree.threshold_scores[{name}]",
            _table,
            lambda xp, counts, name=name: score_thresholds(xp, counts, name),
        )


def _boosting_cases() -> Iterator[KernelCase]:
    yield KernelCase("log_loss_gradients[two classes]", _scored, _derive_one)
    yield KernelCase("log_loss_gradients[three classes]", _scored, _derive_three)
    yield KernelCase("best_splits", _scored, _split_nodes)


def _scored(seed: int, n: int = 300) -> HostArrays:
    rng = as_generator(seed)
    return {
        "scores": rng.integers(-(1 << 22), 1 << 22, (3, n)).astype("int32"),
        "codes": rng.integers(0, 3, n),
        "bins": rng.integers(0, 8, (4, n)).astype("uint8"),
        "order": rng.permutation(n),
    }


def _derive_three(xp: Namespace, scores: Array, codes: Array, bins: Array, order: Array) -> tuple[Array, ...]:
    tables = gradient_tables(xp, locate(scores).device, 3)
    return tuple(log_loss_gradients(xp, tables, scores, codes, None))


def _derive_one(xp: Namespace, scores: Array, codes: Array, bins: Array, order: Array) -> tuple[Array, ...]:
    tables = gradient_tables(xp, locate(scores).device, 1)
    is_second = xp.astype(codes == 1, xp.int64)
    return tuple(log_loss_gradients(xp, tables, scores[:1, :], is_second, None))


def _split_nodes(xp: Namespace, scores: Array, codes: Array, bins: Array, order: Array) -> tuple[Array, ...]:
    """Histograms of two blocks, their best splits, the rows after them, and the scores they lead to."""
    device = locate(scores).device
    packed, _ = _derive_one(xp, scores, codes, bins, order)
    starts, sizes = (0, 120), (120, 180)
    running = block_histograms(xp, bins, packed[0, :], order, starts, sizes, 8)
    regular = xp.asarray([1.0, 1.0, 1.0], dtype=xp.float32, device=device)
    share = xp.asarray([0.01, 0.01], dtype=xp.float32, device=device)
    best = best_splits(xp, running, regular, share, None, n_numeric=4, missing=(1,))
    moves = BlockSplits(starts, sizes, (0, 3), (3, -1), best.goes_right)
    moved, n_left = split_blocks(xp, bins, xp.asarray(order, copy=True), moves)
    first_scores = xp.asarray(scores[0, :], copy=True)
    changed = add_to_sides(xp, first_scores, bins, order, moves, ((5, -7), (6, 9)))
    return running, best.cell, best.left, moved, n_left, changed


def _gram_cases() -> Iterator[KernelCase]:
    objects = {
        "linear": kernels.Linear(),
        "polynomial": kernels.Polynomial(3, 1.0, 0.5),
        "gaussian": kernels.Gaussian(0.3),
        "sigmoid": kernels.Sigmoid(0.1, 0.2),
        "combined": 2.0 * kernels.Gaussian(width=2.0) * kernels.Linear() + kernels.Polynomial(2),
    }
    for name, kernel in objects.items():
        yield KernelCase(
            f"kernels.gram[{name}]",
            _rows,
            lambda xp, x, z, k=kernel: (k.gram(xp, x, z), k.gram(xp, x), k.diagonal(xp, x)),
        )
    yield KernelCase(
        "kernels.resolve_gamma",
        _rows,
        lambda xp, x, z: kernels.Gaussian(kernels.resolve_gamma(xp, x, "scale")).gram(xp, x, z),
    )


def _gaussian_cases() -> Iterator[KernelCase]:
    rows = _only(_classes, "x", "codes", "weights")
    for name, make, options in (
        ("diagonal", rows, {}),
        ("full", rows, {"full": True}),
        ("missing", _with_gaps(rows), {"skip_missing": True}),
    ):
        yield KernelCase(f"gaussian.moments[{name}]", make, _moments(**options))
    yield KernelCase(
        "gaussian.log_density",
        _only(_classes, "x", "mean", "cov"),
        lambda xp, x, mean, cov: full_log_density(xp, factor_covariances(xp, mean, cov), x),
    )
    parameters = _only(_classes, "x", "mean", "var")
    for by_product in (False, True):
        yield KernelCase(
            f"gaussian.diagonal_log_density[{'product' if by_product else 'direct'}]",
            parameters,
            lambda xp, x, mean, var, p=by_product: diagonal_log_density(xp, x, mean, var, by_product=p),
        )
        yield KernelCase(
            f"gaussian.diagonal_log_density[{'product' if by_product else 'direct'}, missing]",
            _with_gaps(parameters),
            lambda xp, x, mean, var, p=by_product: diagonal_log_density(
                xp, x, mean, var, by_product=p, skip_missing=True
            ),
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
