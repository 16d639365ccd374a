"""The first fit on a machine where nothing is compiled: a fresh process with an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from arraylearn.backend.namespace import Place
from arraylearn.bench.case import Case, Race, Run, Size
from arraylearn.bench.data import Shape

__all__ = ["CASES"]

_LEARNERS = {
    "exact tree": "DecisionTreeClassifier(splitter='exact')",
    "binned tree": "DecisionTreeClassifier(splitter='hist')",
    "forest": "RandomForestClassifier()",
    "boosting": "GradientBoostingClassifier()",
    "SVC": "SVC()",
}
_SCRIPT = """
import arraylearn as al
from arraylearn.bench.data import Shape, curved
rows = curved(Shape({n_rows}, {n_columns}))
al.{learner}.fit(rows.X, rows.y)
"""


def _case(name: str, learner: str) -> Case:
    def prepare(shape: Shape, n_threads: int) -> Race:
        script = _SCRIPT.format(**shape._asdict(), learner=learner)

        def fit() -> subprocess.CompletedProcess[bytes]:
            with tempfile.TemporaryDirectory() as empty:
                threads = {"ARRAYLEARN_NUM_THREADS": str(n_threads)}
                environment = {**os.environ, **threads, "NUMBA_CACHE_DIR": empty}
                return subprocess.run([sys.executable, "-c", script], env=environment, check=True)

        def ours(place: Place) -> Run:
            return fit

        return Race(ours, {}, None, recorded={"5 s": 5.0})

    shapes: dict[Size, Shape] = {"small": Shape(5000, 20)}
    return Case(
        "first_fit", f"{name}, with imports", ("first fit",), shapes, (), prepare, quality="", host_only=True
    )


CASES = [_case(name, learner) for name, learner in _LEARNERS.items()]
