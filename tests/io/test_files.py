"""Files of rows: the same columns whichever data frame library reads them, and clear refusals."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import numpy as np
import pytest

from arraylearn.io import files
from arraylearn.io.files import read_table_file, split_target

CSV = """outlook, temperature,code,play
sunny,20.5,1,no
"rain, cold",?,2,yes
,1e1,NA,yes
"""
ARFF = """% a comment
@relation weather
@attribute outlook {sunny, 'rain, cold'}
@ATTRIBUTE temperature real
@attribute code {1, 2}
@attribute play {yes, no}
@data
% another
sunny, 20.5, 1, no
'rain, cold', ?, 2, yes
?, 1e1, ?, yes
"""


def columns(frame):
    wrapped = nw.from_native(frame, eager_only=True)
    return {name: wrapped.get_column(name).to_list() for name in wrapped.columns}


@pytest.fixture(params=["polars", "pyarrow", "pandas"])
def library(request, monkeypatch):
    pytest.importorskip(request.param)
    monkeypatch.setattr(files, "_FRAMES", (request.param,))
    return request.param


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def same(found, expected):
    """Compare columns; every spelling of a missing value is None here."""
    plain = {
        name: [None if value is None or value != value else value for value in values]
        for name, values in found.items()
    }
    assert plain == expected


def test_csv(library, tmp_path):
    frame = read_table_file(write(tmp_path, "weather.csv", CSV))
    assert type(frame).__module__.split(".")[0] == library
    same(
        columns(frame),
        {
            "outlook": ["sunny", "rain, cold", None],
            "temperature": [20.5, None, 10.0],
            "code": [1.0, 2.0, None],
            "play": ["no", "yes", "yes"],
        },
    )


def test_arff_keeps_nominal_numbers_as_text(library, tmp_path):
    same(
        columns(read_table_file(write(tmp_path, "weather.arff", ARFF))),
        {
            "outlook": ["sunny", "rain, cold", None],
            "temperature": [20.5, None, 10.0],
            "code": ["1", "2", None],
            "play": ["no", "yes", "yes"],
        },
    )


def test_parquet(library, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": [1.5, 2.5], "y": ["a", "b"]}), path)
    same(columns(read_table_file(path)), {"x": [1.5, 2.5], "y": ["a", "b"]})


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators(tmp_path, separator):
    text = "\n".join(separator.join(cells) for cells in (("a", "b"), ("1", "2"), ("3", "4")))
    assert columns(read_table_file(write(tmp_path, "rows.txt", text))) == {"a": [1.0, 3.0], "b": [2.0, 4.0]}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("rows.xlsx", "", "must end with one of .csv"),
        ("rows.csv", "", "is empty"),
        ("rows.csv", "a,b\n", "holds no rows"),
        ("rows.csv", "a,b\n1,2\n3\n", "row 2 .* has 1 cells; the header has 2"),
        ("rows.csv", "a,a\n1,2\n", "several columns named 'a'"),
        ("rows.arff", "@relation x\n@data\n1\n", "declares no @attribute"),
        ("rows.arff", "@attribute t date\n@data\n1\n", "attribute 't' .* has type 'date'"),
        ("rows.arff", "@attribute t real\n@data\nx\n", "numeric attribute 't'"),
        ("rows.arff", "@attribute t real\n@data\n{0 1}\n", "sparse rows"),
        ("rows.parquet", "no such thing", "cannot be read as Parquet"),
    ],
)
def test_refusals(tmp_path, name, text, told):
    with pytest.raises(ValueError, match=told):
        read_table_file(write(tmp_path, name, text))


def test_no_file_and_no_library(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="there is no file"):
        read_table_file(tmp_path / "nothing.csv")
    monkeypatch.setattr(files, "_FRAMES", ("no_such_library",))
    with pytest.raises(ValueError, match=r"arraylearn\[files\]"):
        read_table_file(write(tmp_path, "rows.csv", "a,b\n1,2\n"))


def test_target(library, tmp_path):
    frame = read_table_file(write(tmp_path, "weather.csv", CSV))
    X, y, name = split_target(frame, None)
    assert (name, list(columns(X)), y.tolist()) == (
        "play",
        ["outlook", "temperature", "code"],
        ["no", "yes", "yes"],
    )
    for target, told in (("rain", "must be a column of the file"), ("code", "1 rows have no 'code'")):
        with pytest.raises(ValueError, match=told):
            split_target(frame, target)


def test_whole_numbers_are_classes(tmp_path):
    frame = read_table_file(write(tmp_path, "rows.csv", "x,y\n1,0\n2,1\n"))
    assert split_target(frame, "y")[1].dtype == np.int64
    one = read_table_file(write(tmp_path, "one.csv", "y\n0\n1\n"))
    with pytest.raises(ValueError, match="no column besides"):
        split_target(one, None)
