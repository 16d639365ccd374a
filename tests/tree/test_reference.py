"""Unpruned C4.5 trees against those of Weka's J48 -U, on data that lie beside the project."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import arraylearn as al

pd = pytest.importorskip("pandas")

# leaves and size of J48 -U
EXPECTED = {
    "glass": (30, 59),
    "balance.scale": (60, 119),
    "vowel": (178, 277),
    "segment": (51, 101),
    "splice": (3597, 3707),
    "kr.vs.kp": (43, 82),
    # with missing values
    "vote": (19, 37),
    "breast.cancer": (152, 179),
    "credit.a": (101, 135),
    "hepatitis": (16, 31),
    "labor": (13, 22),
    "mushroom": (25, 30),
}


def data_folder():
    stated = os.environ.get("ARRAYLEARN_REFERENCE_DATA")
    return Path(stated) if stated else Path(__file__).parents[3] / "shared" / "data"


def load(name):
    """Columns and classes of an ARFF file."""
    path = data_folder() / f"{name}.arff"
    if not path.exists():
        pytest.skip("the reference data are not here; ARRAYLEARN_REFERENCE_DATA names their folder")
    columns, rows, is_data = [], [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        if is_data:
            rows.append([value.strip().strip("'\"") for value in line.split(",")])
        elif match := re.match(r"@attribute\s+('[^']*'|\S+)\s+(.*)", line, re.IGNORECASE):
            kind = match[2].strip()
            names = [value.strip().strip("'\"") for value in kind.strip("{} \t").split(",")]
            columns.append((match[1].strip("'"), names if kind.startswith("{") else None))
        is_data = is_data or line.lower().startswith("@data")
    table = {}
    for j, (column, domain) in enumerate(columns):
        values = [None if row[j] == "?" else row[j] for row in rows]
        if domain is None:
            table[column] = np.array([np.nan if value is None else float(value) for value in values])
        else:
            table[column] = pd.Categorical(values, categories=domain)
    frame = pd.DataFrame(table)
    return frame.iloc[:, :-1], frame.iloc[:, -1].astype(str).to_numpy()


@pytest.mark.parametrize("name", EXPECTED)
def test_unpruned_size(name):
    X, y = load(name)
    tree = al.c45(pruning=None).fit(X, y)
    assert (tree.get_n_leaves(), tree.tree_.n_nodes) == EXPECTED[name]
