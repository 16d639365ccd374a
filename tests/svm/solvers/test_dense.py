"""Many small problems at once: the compiled body beside the array program, and what the problems share."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from sklearn.datasets import make_classification

import arraylearn as al
from arraylearn.backend.dispatch import is_numba_installed, use_compiled
from arraylearn.backend.namespace import HOST
from arraylearn.kernels import Gaussian, Kernel, Polynomial, Precomputed
from arraylearn.svm.solvers.dense import choose_body, solve_dense
from arraylearn.svm.solvers.dual import KernelMatrix, Settings, classification_at, extremes, objective
from arraylearn.svm.tasks import make_tasks


def needs_numba(test):
    is_missing = not is_numba_installed()
    return pytest.mark.rungs("compiled")(pytest.mark.skipif(is_missing, reason="not installed: numba")(test))


def problems_of(kind, kernel, bound, *, n=240, is_begun=False):
    X, y = make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=4, n_clusters_per_class=1, flip_y=0.1, random_state=1
    )
    rng = np.random.default_rng(0)
    X, y = X[y.argsort()], np.sort(y)  # the classes are found all the same
    mixed = rng.permutation(n)
    X, y = X[mixed], y[mixed]
    tasks = make_tasks("ovr" if kind == "against the rest" else "ovo", y, 4)
    members, signs = [task.rows for task in tasks], [task.sign for task in tasks]
    if kind == "samples":  # no rows are in the same problems
        kept = [np.sort(rng.permutation(len(rows))[: len(rows) // 2]) for rows in members]
        members, signs = (
            [part[k] for part, k in zip(parts, kept, strict=True)] for parts in (members, signs)
        )
    x = al.kernels.gram(X, kernel=kernel) if kind == "precomputed" else X
    matrix = KernelMatrix(HOST, x, Precomputed() if kind == "precomputed" else kernel)
    starts = [None] * len(signs)
    if is_begun:
        starts = [np.where(s > 0, 0.5 * bound / (s > 0).sum(), -0.5 * bound / (s < 0).sum()) for s in signs]
    problems = [
        classification_at(HOST, sign, np.full(sign.shape, bound), start)
        for sign, start in zip(signs, starts, strict=True)
    ]
    return matrix, members, problems, [al.kernels.gram(X[idx], kernel=kernel) for idx in members]


@needs_numba
@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("kind", ["pairs", "against the rest", "samples", "precomputed"])
@pytest.mark.parametrize(
    ("kernel", "bound", "tol"),
    [(Gaussian(0.2), 1.0, 1e-3), (Gaussian(0.2), 1.0, 1e-7), (Polynomial(2, 1.0), 1.0, 1e-3)],
)
def test_the_compiled_body_solves_each_problem(
    kernel: Kernel, bound: float, tol: float, kind: str, is_begun: bool
):
    """Values in float32 leave the second and third case uncertain: these end in float64."""
    matrix, members, problems, grams = problems_of(kind, kernel, bound, is_begun=is_begun)
    with use_compiled("always"):
        solve = choose_body(HOST.xp, 1)
    seen = []
    settings = Settings(tol=tol)
    found = solve(matrix, members, problems, settings._replace(report=lambda *numbers: seen.append(numbers)))
    with use_compiled("never"):
        expected = solve_dense(matrix, members, problems, settings)
    assert seen[0][0] > 0
    for solution, other, problem, gram in zip(found, expected, problems, grams, strict=True):
        beta = solution.beta
        assert solution.is_converged
        assert ((beta >= problem.lower) & (beta <= problem.upper)).all()
        assert abs(beta.sum()) < 1e-9 * bound
        gradient = problem.linear - gram @ beta
        np.testing.assert_allclose(solution.gradient, gradient, rtol=0, atol=0.2 * tol)
        highest, lowest = extremes(HOST.xp, beta, gradient, problem)
        assert highest - lowest <= 1.2 * tol
        values = [objective(HOST.xp, s.beta, s.gradient, problem) for s in (solution, other)]
        assert values[0] == pytest.approx(values[1], rel=10 * tol)


@needs_numba
def test_what_the_limit_leaves_is_not_converged():
    matrix, members, problems, _ = problems_of("pairs", Gaussian(0.2), 1.0)
    with use_compiled("always"):
        found = choose_body(HOST.xp, 1)(matrix, members, problems, Settings(max_iter=3))
    assert [solution.n_iter for solution in found] == [3] * len(problems)
    assert not any(solution.is_converged for solution in found)
    assert all(solution.gap > 1e-3 for solution in found)


@needs_numba
def test_rows_in_the_same_problems_form_a_part():
    from arraylearn.svm.solvers.dense_cpu import _find_parts

    codes = np.repeat([2, 0, 1], [20, 30, 25])
    members = [task.rows for task in make_tasks("ovo", codes, 3)]
    parts = _find_parts(75, members)
    found = [codes[some].tolist() for some in np.split(parts.order, parts.sizes.cumsum()[:-1])]
    assert sorted(found) == [[0] * 30, [1] * 25, [2] * 20]
    n_cells = sum(a * sum(parts.sizes[k:]) for k, a in enumerate(parts.sizes))
    assert parts.n_cells == n_cells
    # the members of a pair, in the order of its two parts
    starts = np.cumsum([0, *map(len, members)])
    rows = np.concatenate(members)[parts.place]
    for p in range(3):
        taken = parts.taken[parts.taken_starts[p] : parts.taken_starts[p + 1]]
        wanted = np.concatenate([np.split(parts.order, parts.sizes.cumsum()[:-1])[t] for t in taken])
        assert rows[starts[p] : starts[p + 1]].tolist() == wanted.tolist()
    assert _find_parts(75, [np.arange(k, 75) for k in range(0, 70, 3)]) is None  # parts of three rows


def test_which_body_takes_pair_steps_in_small_problems():
    assert choose_body(array_api_strict, 10**6) == "not on a CPU of NumPy"
    with use_compiled("auto"):
        assert choose_body(HOST.xp, 49_999) == "less work than 50,000 cells"
    with use_compiled("never"):
        assert isinstance(choose_body(HOST.xp, 10**6), str)
