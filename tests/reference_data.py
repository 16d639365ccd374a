"""Data sets whose results by other implementations are known; they lie beside the repository or nowhere.

`load_reference` looks in the folder named by the environment variable ``ARRAYLEARN_REFERENCE_DATA``, then in
``../shared/data`` beside the repository, and skips the test where neither holds the file.
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

__all__ = ["ACCURACIES", "Reference", "load_reference", "reference_folder"]

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
    """Read a data set, or skip the test where it is not there."""
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
