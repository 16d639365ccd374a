"""In which regime of rows, columns, C and kernel each solver of support vector machines is needed.

    python -m benchmarks.svm_regimes [--markdown] [regime ...]

Every solver solves every problem alone, from zero, to the default tolerance; a star marks one that did not
get there within 50 pair steps per row. Seconds are of the processor, the least of up to five turns.

- pairs: working-set decomposition, `arraylearn.svm.solvers.decomposition`
- dense: pair steps on the whole kernel matrix, `arraylearn.svm.solvers.dense`
- newton: Newton's method in the columns, `arraylearn.svm.solvers.newton`; the linear kernel only
- low rank: ten pair steps per row, Newton's method on a factor of the kernel matrix, and pair steps again,
  `arraylearn.svm.solvers.low_rank`
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification

from arraylearn.backend.namespace import HOST
from arraylearn.kernels import as_kernel
from arraylearn.svm.solvers.decomposition import decompose
from arraylearn.svm.solvers.dense import solve_dense
from arraylearn.svm.solvers.dual import (
    DualProblem,
    DualSolution,
    KernelMatrix,
    Settings,
    classification_at,
    make_rows,
)
from arraylearn.svm.solvers.low_rank import solve_low_rank
from arraylearn.svm.solvers.newton import solve_newton

_STEPS_PER_ROW = 50
_DENSE_ROWS = 2000  # above this, whole matrices are not tried
_TURNS, _ENOUGH = 5, 2.0  # turns, and seconds after which there is no further one


class Regime(NamedTuple):
    """A problem that stands for a regime."""

    kernel: str
    gamma: float
    n: int
    d: int
    C: float

    @property
    def name(self) -> str:
        shown = self.kernel if self.kernel == "linear" else f"{self.kernel} {self.gamma:g}"
        return f"{shown}, {self.n} x {self.d}, C={self.C:g}"


REGIMES = [
    *(Regime("linear", 1.0, n, d, C) for n, d in ((150, 20), (2000, 20), (10_000, 20)) for C in (0.1, 10.0)),
    Regime("linear", 1.0, 2000, 300, 0.01),
    Regime("linear", 1.0, 500, 1000, 1.0),
    Regime("linear", 1.0, 1500, 2000, 1.0),
    *(Regime("rbf", 0.05, 150, 20, C) for C in (0.1, 10.0)),
    *(Regime("rbf", 0.05, 600, 20, C) for C in (0.1, 10.0)),
    *(Regime("rbf", 0.05, 3000, 20, C) for C in (0.1, 10.0, 1e3)),
    *(Regime("rbf", 0.001, 3000, 20, C) for C in (10.0, 1e4)),
    *(Regime("poly", 0.25, 3000, 4, C) for C in (0.1, 10.0, 1e3)),
]


def pairs(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    rows = make_rows(matrix, float((problem.upper - problem.lower).max()), settings)
    return decompose(rows, problem, settings.at_most(_STEPS_PER_ROW * matrix.n))


def dense(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    limited = settings.at_most(_STEPS_PER_ROW * matrix.n)
    return solve_dense(matrix, [matrix.all_rows()], [problem], limited)[0]


def newton(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    return solve_newton(HOST, matrix.x, problem, settings)


def low_rank(matrix: KernelMatrix, problem: DualProblem, settings: Settings) -> DualSolution:
    rows = make_rows(matrix, float((problem.upper - problem.lower).max()), settings)
    found = decompose(rows, problem, settings.at_most(10 * matrix.n))
    if not found.is_converged:
        middle = solve_low_rank(matrix, problem._replace(start=found.beta), settings)
        start = middle.beta if middle.gap < math.inf else found.beta
        rest = settings.at_most((_STEPS_PER_ROW - 10) * matrix.n)
        found = decompose(rows, problem._replace(start=start), rest)
    return found


SOLVERS: dict[str, Callable[[KernelMatrix, DualProblem, Settings], DualSolution]] = {
    "pairs": pairs,
    "dense": dense,
    "newton": newton,
    "low rank": low_rank,
}


def is_tried(solver: str, regime: Regime) -> bool:
    """Whether a solver is for the problem at all."""
    if solver == "newton":
        return regime.kernel == "linear"
    if solver == "low rank":
        return regime.kernel != "linear"
    return solver != "dense" or regime.n <= _DENSE_ROWS


def state(regime: Regime) -> tuple[KernelMatrix, DualProblem]:
    """Make the rows of a regime: overlapping classes, every tenth label changed."""
    n_informative = min(10, max(2, regime.d // 2))
    X, y = make_classification(
        regime.n, regime.d, n_informative=n_informative, n_redundant=0, flip_y=0.1, random_state=0
    )
    kernel = as_kernel(regime.kernel, gamma=regime.gamma, degree=2, coef0=1.0)
    problem = classification_at(HOST, 2.0 * y - 1.0, np.full(regime.n, regime.C))
    return KernelMatrix(HOST, X, kernel), problem


def measure(regime: Regime) -> dict[str, tuple[float, bool]]:
    """Return for each solver its least seconds, and whether it converged."""
    matrix, problem = state(regime)
    found: dict[str, tuple[float, bool]] = {}
    for name, solve in SOLVERS.items():
        if is_tried(name, regime):
            least, spent = math.inf, 0.0
            for _ in range(_TURNS):
                start = time.process_time()
                solution = solve(matrix, problem, Settings())
                least, spent = min(least, time.process_time() - start), spent + time.process_time() - start
                if spent > _ENOUGH:
                    break
            found[name] = least, solution.is_converged
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("regimes", nargs="*", help="words that the names of the regimes contain")
    parser.add_argument("--markdown", action="store_true", help="print a table of Markdown")
    options = parser.parse_args(arguments)
    chosen = [one for one in REGIMES if all(word in one.name for word in options.regimes)]
    lines: list[list[str]] = []
    for regime in chosen:
        found = measure(regime)
        best = min((seconds for seconds, is_converged in found.values() if is_converged), default=None)
        lines.append([regime.name, *(_cell(found.get(name), best) for name in SOLVERS)])
    print_table(lines, is_markdown=options.markdown)


def _cell(found: tuple[float, bool] | None, best: float | None) -> str:
    if found is None:
        return "-"
    seconds, is_converged = found
    shown = f"{1e3 * seconds:.1f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"
    return f"**{shown}**" if seconds == best and is_converged else shown + ("" if is_converged else "*")


def print_table(lines: list[list[str]], *, is_markdown: bool) -> None:
    heads: list[Any] = ["milliseconds", *SOLVERS]
    console = Console(width=120)
    if is_markdown:
        for line in [heads, ["---"] * len(heads), *lines]:
            console.print("| " + " | ".join(line) + " |", markup=False, highlight=False)
        return
    table = Table(*heads)
    for line in lines:
        table.add_row(*line)
    console.print(table)


if __name__ == "__main__":
    main()
