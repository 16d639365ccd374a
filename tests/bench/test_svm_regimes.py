"""The table of solvers by regime: which are tried, which converge, how the cells read."""

from __future__ import annotations

from benchmarks import svm_regimes


def test_every_solver_that_is_tried_solves_a_small_problem():
    linear = svm_regimes.measure(svm_regimes.Regime("linear", 1.0, 60, 3, 0.1))
    curved = svm_regimes.measure(svm_regimes.Regime("rbf", 0.5, 60, 3, 1.0))
    assert sorted(linear) == ["dense", "newton", "pairs"]
    assert sorted(curved) == ["dense", "low rank", "pairs"]
    assert all(is_converged for _, is_converged in (linear | curved).values())


def test_cells():
    assert svm_regimes._cell(None, 1.0) == "-"
    assert svm_regimes._cell((0.0123, True), 0.0123) == "**12.3**"
    assert svm_regimes._cell((0.5, False), 0.0123) == "500*"
    assert len({regime.name for regime in svm_regimes.REGIMES}) == len(svm_regimes.REGIMES)
