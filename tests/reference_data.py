"""Data sets whose results by other implementations are known; they lie beside the repository or nowhere.

`load_reference` looks in the folder named by the environment variable ``ARRAYLEARN_REFERENCE_DATA``, then in
``../shared/data`` beside the repository, and skips the test where neither holds the file. `READERS` names
every test that may ask for one, and the test that proves its claim on data that come with the project.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

import arraylearn as al

__all__ = [
    "ACCURACIES",
    "ON_IRIS",
    "READERS",
    "Reader",
    "Reference",
    "accuracy_on_iris",
    "load_reference",
    "reference_folder",
]


class Reader(NamedTuple):
    """A test that needs files from outside the repository."""

    n_cases: int  # how many tests it becomes, which is how many skips it may cause
    stand_in: str  # the test that proves the claim without them


READERS = {
    "tests/bench/test_reference_accuracy.py::test_categories_become_numbers_where_the_peer_takes_no_others": (
        Reader(1, "tests/bench/test_reference_accuracy.py::test_boosted_stumps_are_those_of_scikit_learn")
    ),
    "tests/bench/test_reference_accuracy.py::test_beside_weka": Reader(
        1, "tests/bayes/test_reference.py::test_accuracy_on_iris_is_that_of_weka"
    ),
    "tests/bayes/test_reference.py::test_accuracy_is_that_of_weka": Reader(
        12, "tests/bayes/test_reference.py::test_accuracy_on_iris_is_that_of_weka"
    ),
    "tests/tree/test_reference.py::test_unpruned_size": Reader(
        12, "tests/tree/test_reference.py::test_unpruned_size_of_embedded_data"
    ),
    "tests/tree/test_pruning_examples.py::test_size_is_that_of_j48": Reader(
        12, "tests/tree/test_pruning_examples.py::test_size_on_iris_is_that_of_j48"
    ),
    "tests/tree/test_pruning_examples.py::test_accuracy_is_that_of_j48": Reader(
        1, "tests/tree/test_pruning_examples.py::test_accuracy_on_iris_is_that_of_j48"
    ),
    "tests/rules/test_reference.py::test_accuracy_of_one_set": Reader(
        4, "tests/rules/test_reference.py::test_accuracy_on_iris"
    ),
    "tests/rules/test_reference.py::test_number_of_rules": Reader(
        1, "tests/rules/test_learners.py::test_ripper_finds_a_concept"
    ),
    "tests/rules/test_reference.py::test_many_classes": Reader(
        2, "tests/rules/test_learners.py::test_ripper_of_many_classes"
    ),
}

# Accuracy in per cent of Weka 3.9 by stratified ten-fold cross-validation: J48, JRip, NaiveBayes.
ACCURACIES = {
    "vote": (96.3218, 95.4023, 90.1149),
    "breast.cancer": (75.5245, 70.979, 71.6783),
    "credit.a": (86.087, 85.7971, 77.6812),
    "hepatitis": (83.871, 78.0645, 84.5161),
    "labor": (73.6842, 77.193, 89.4737),
    "glass": (66.8224, 68.6916, 48.5981),
    "balance.scale": (76.64, 79.04, 90.4),
    "vowel": (81.5152, 70.101, 63.7374),
    "segment": (96.9264, 95.4113, 80.2165),
    "splice": (94.0752, 93.9812, 95.2978),
    "kr.vs.kp": (99.4368, 99.1865, 87.8911),
    "mushroom": (100.0, 100.0, 95.8272),
}
# Weka 3.9 on iris, which comes with the project: means of ten-fold cross-validation by its seeds 1 to 5.
ON_IRIS = (94.9333, 93.6, 95.4667)
_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\S+)\s+(.*)", flags=re.IGNORECASE)


class Reference(NamedTuple):
    """A table; the last column of the file is the class."""

    X: Any  # pandas data frame; nominal columns are categoricals with the declared domain
    y: np.ndarray  # labels
    categorical: tuple[int, ...]  # positions of the nominal columns


def reference_folder() -> Path:
    """Return where the data sets lie."""
    stated = os.environ.get("ARRAYLEARN_REFERENCE_DATA")
    return Path(stated) if stated else Path(__file__).parents[2] / "shared" / "data"


def load_reference(name: str) -> Reference:
    """Read a data set, or skip the test where it is not there; of all tests only for those in `READERS`."""
    running = os.environ.get("PYTEST_CURRENT_TEST", "").partition("[")[0].partition(" ")[0]
    if running and running not in READERS:
        raise LookupError(f"{running} reads reference data: name it in READERS of tests/reference_data.py")
    path = reference_folder() / f"{name}.arff"
    if not path.exists():
        pytest.skip(f"no {path.name} in {path.parent}; set ARRAYLEARN_REFERENCE_DATA")
    pandas = pytest.importorskip("pandas")
    attributes, rows = _parse(path.read_text(encoding="utf-8", errors="replace"))
    columns = {}
    for j, (label, domain) in enumerate(attributes[:-1]):
        values = [None if row[j] == "?" else row[j] for row in rows]
        if domain is None:
            columns[label] = np.array([np.nan if value is None else float(value) for value in values])
        else:
            columns[label] = pandas.Categorical(values, categories=domain)
    nominal = tuple(j for j, (_, domain) in enumerate(attributes[:-1]) if domain is not None)
    return Reference(pandas.DataFrame(columns), np.array([row[-1] for row in rows]), nominal)


def accuracy_on_iris(make: Callable[[int], Any]) -> float:
    """Per cent of right predictions by ten folds, over five shuffles; `make` gets the shuffle's number."""
    iris = al.datasets.load_iris()
    n_right = 0
    for seed in range(5):
        folds = StratifiedKFold(10, shuffle=True, random_state=seed)
        for fit, judge in folds.split(iris.X, iris.y):
            predicted = make(seed).fit(iris.X[fit], iris.y[fit]).predict(iris.X[judge])
            n_right += int((predicted == iris.y[judge]).sum())
    return 100 * n_right / (5 * len(iris.y))


def _parse(text: str) -> tuple[list[tuple[str, list[str] | None]], list[list[str]]]:
    """Return names with their domains (None: numeric), and the rows as text."""
    attributes: list[tuple[str, list[str] | None]] = []
    lines = iter(text.splitlines())
    for line in lines:
        stripped = line.strip()
        if stripped.lower().startswith("@data"):
            break
        if found := _ATTRIBUTE.match(stripped):
            kind = found[2].strip()
            domain = _cells(kind[1 : kind.rindex("}")]) if kind.startswith("{") else None
            attributes.append((found[1].strip("'"), domain))
    rows = [_cells(line) for line in lines if line.strip() and not line.lstrip().startswith("%")]
    return attributes, rows


def _cells(line: str) -> list[str]:
    cells = next(csv.reader([line.strip()], quotechar="'", skipinitialspace=True))
    return [cell.strip() for cell in cells]
