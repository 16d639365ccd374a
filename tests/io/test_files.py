"""Files of rows: the same columns whichever data frame library reads them, and clear refusals."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal

import narwhals.stable.v2 as nw
import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.dispatch import tuned
from arraylearn.io import files
from arraylearn.io.files import read_table_file, split_target
from arraylearn.table import encode_labels, learn_schema, read_table

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
def library(request):
    pytest.importorskip(request.param)
    with tuned(frame_libraries=(request.param,)):
        yield request.param


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def assert_same(found, expected):
    """Compare columns; every spelling of a missing value is None here."""
    plain = {
        name: [None if value is None or value != value else value for value in values]
        for name, values in found.items()
    }
    assert plain == expected


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,x\n2.5,y\n",
        "a,b\n 1 , x\n\t-2e3, y z \n",  # spaces around cells
        "a,b\nNA,nan\nnone, NuLL\n?,1\n,2\n",  # missing in every spelling
        "a,b\n1_000,x\n2,y\n",  # a number to Python alone
        "a,b\n1_000,x\n2z,y\n",
        "a,b\n007,1e400\n+5,-inf\n.5,infinity\n",
        "a,b\ntrue,2020-01-01\nfalse,2021-01-01\n",  # other types are text
        'a,b\n"x,1",y\n"say ""no""",z\n',
        'a,b\n1, "x, y"\n2, "z"\n',  # a quote after a space opens a cell
        'a,b\n1, "x"\n2, "z"\n',
        'a,b\n"two\nlines",y\nx,z\n',
        '"first\nname",b\n1,y\n2,z\n',
        "a,b\n1,x\n\n2,y\n\n",  # empty lines
        "\n\na,b\n1,x\n",
        "a,b\n1,\n2,\n",
        "a\tb\n1,5\tx\n2,5\ty\n",
        "a;b\r\n1;x\r\n2;y\r\n",
        "\ufeffa,b\n1,x\n",
        "a\n1\n2\n",
        "a\n1\n\n2\n",
        " a ,b\n1,9007199254740993\n2,12345678901234567890\n",
    ],
)
def test_libraries_read_what_python_reads(library, tmp_path, monkeypatch, text):
    path = write(tmp_path, "rows.csv", text)
    found = read_table_file(path)
    some = read_table_file(path, columns={"b"}, text={"b"}) if "b" in text else found
    monkeypatch.setattr(files, "_read_cells", lambda *given: None)
    expected = read_table_file(path)
    assert nw.from_native(found).schema == nw.from_native(expected).schema
    assert_same(columns(found), columns_of_numbers_and_text(expected))
    if "b" in text:
        expected = read_table_file(path, columns={"b"}, text={"b"})
        assert_same(columns(some), columns_of_numbers_and_text(expected))


def columns_of_numbers_and_text(frame):
    """Columns as `assert_same` compares them."""
    return {
        name: [None if value is None or value != value else value for value in values]
        for name, values in columns(frame).items()
    }


def test_large_files_are_read_by_a_library_and_short_rows_by_none(library, tmp_path):
    path = write(tmp_path, "rows.csv", "a,b\n1, x\n")
    assert files._read_cells(path, ",", ["a", "b"]).rows() == [("1", " x")]
    for rows in ("1\n", "1,2,3\n", "1,2\n3\n", "1,2\n3,4,5\n", "1,2\n3,\n"):
        assert files._read_cells(write(tmp_path, "rows.csv", "a,b\n" + rows), ",", ["a", "b"]) is None


def test_csv(library, tmp_path):
    frame = read_table_file(write(tmp_path, "weather.csv", CSV))
    assert type(frame).__module__.split(".")[0] == library
    assert_same(
        columns(frame),
        {
            "outlook": ["sunny", "rain, cold", None],
            "temperature": [20.5, None, 10.0],
            "code": [1.0, 2.0, None],
            "play": ["no", "yes", "yes"],
        },
    )


def test_arff_keeps_nominal_numbers_as_text(library, tmp_path):
    assert_same(
        columns(read_table_file(write(tmp_path, "weather.arff", ARFF))),
        {
            "outlook": ["sunny", "rain, cold", None],
            "temperature": [20.5, None, 10.0],
            "code": ["1", "2", None],
            "play": ["no", "yes", "yes"],
        },
    )


QUOTED = """@relation 'it''s'
@attribute 'the sign' {'?', "it's", 'a\\'b', plain, "x, y"}
@attribute note string
@attribute "size" numeric
@attribute class {yes, no}
@data
'?', '?', 1, yes
?, ?, ?, no
"it's",NA,2,no
'a\\'b' , 'two  blanks ', 3,yes
plain,isn't,4,'no'
"x, y",,5,yes
"""


def test_arff_quoted_cells_are_values(library, tmp_path):
    assert_same(
        columns(read_table_file(write(tmp_path, "quoted.arff", QUOTED))),
        {
            "the sign": ["?", None, "it's", "a'b", "plain", "x, y"],
            "note": ["?", None, "NA", "two  blanks ", "isn't", ""],
            "size": [1.0, None, 2.0, 3.0, 4.0, 5.0],
            "class": ["yes", "no", "no", "yes", "no", "yes"],
        },
    )


def test_arff_declared_values_keep_their_order(library, tmp_path):
    """Also those that no row has; the order of the classes decides between equally good ones."""
    text = (
        "@attribute a {tall, short, mid, none}\n@attribute b {0, 1}\n@attribute c {yes, no, maybe}\n@data\n"
    )
    text += "short, ?, no\nmid, 1, yes\n?, 1, no\ntall, 1, yes\n"
    X, y, _ = split_target(read_table_file(write(tmp_path, "rows.arff", text)), None)
    schema = learn_schema(X)
    assert schema.domains == (("tall", "short", "mid", "none"), ("0", "1"))
    table = read_table(X, schema, al.backend.namespace.HOST)
    np.testing.assert_array_equal(table.codes, [[1, 2, -1, 0], [-1, 1, 1, 1]])
    for labels in (y, y[1:], np.take(y, [0, 1]), pickle.loads(pickle.dumps(y))):
        assert encode_labels(labels).classes.tolist() == ["yes", "no"]
    assert encode_labels(y).codes.tolist() == [1, 0, 1, 0]
    assert al.DecisionTreeClassifier(min_samples_leaf=4).fit(X, y).predict(X).tolist() == ["yes"] * 4
    assert al.evaluate(al.NaiveBayesClassifier(), X, y, cv=2).classes.tolist() == ["yes", "no"]


def test_labels_of_a_frame_are_sorted():
    """As everywhere in scikit-learn, whose metrics take the columns of probabilities in this order."""
    pandas = pytest.importorskip("pandas")
    labels = pandas.Categorical(["yes", "no"], categories=["yes", "no"], ordered=True)
    assert encode_labels(pandas.Series(labels)).classes.tolist() == ["no", "yes"]


def test_parquet(library, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"x": [1.5, 2.5], "y": ["a", "b"]}), path)
    assert_same(columns(read_table_file(path)), {"x": [1.5, 2.5], "y": ["a", "b"]})


def write_parquet(path, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
    return path


DAY = datetime.date(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1], [2, 3], None], "List"),
        ([{"a": 1}, {"a": 2}, None], "Struct"),
        ([b"a", b"b", None], "Binary"),
        ([DAY, None, DAY], "Date"),
        ([NOON, None, NOON], "Datetime"),
        ([NOON.time(), None, NOON.time()], "Time"),
        ([datetime.timedelta(1), None, datetime.timedelta(2)], "Duration"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parquet_types_that_cannot_be_read(library, tmp_path, values, kind):
    path = write_parquet(tmp_path / "rows.parquet", x=[1.0, 2.0, 3.0], odd=values, also=values)
    with pytest.raises(ValueError, match=f"column 'odd' .* has type {kind}; .* 'also'. Drop"):
        read_table_file(path)
    assert list(columns(read_table_file(path, columns=["x", "nothing"]))) == ["x"]


def test_parquet_types_that_can_be_read(library, tmp_path):
    path = write_parquet(
        tmp_path / "rows.parquet",
        amount=[Decimal("1.5"), None, Decimal("2.25")],
        is_open=[True, None, False],
        count=[1, None, 3],
        nothing=[None, None, None],
        __index_level_0__=[7, 8, 9],
    )
    assert_same(
        columns(read_table_file(path)),
        {
            "amount": [1.5, None, 2.25],
            "is_open": [True, None, False],
            "count": [1, None, 3],
            "nothing": [None] * 3,
        },
    )


def test_parquet_labels(library, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = write_parquet(tmp_path / "rows.parquet", x=[1, 2], y=[Decimal("1.00"), Decimal("2.00")])
    labels = split_target(read_table_file(path), None)[1]
    assert (labels.tolist(), labels.dtype) == ([1, 2], np.int64)
    coded = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    frame = read_table_file(write_parquet(tmp_path / "rows.parquet", x=[1, 2, 3], y=coded))
    assert split_target(frame, None)[1].tolist() == ["a", "b", "a"]


def test_columns_that_are_text(library, tmp_path):
    """A model knows which columns are text, whatever a few rows of a file look like."""
    text = "a,b,c\n1,2,\n3,4,\n"
    frame = read_table_file(write(tmp_path, "rows.csv", text), columns={"a", "c"}, text={"a", "c"})
    assert_same(columns(frame), {"a": ["1", "3"], "c": [None, None]})
    assert nw.from_native(frame, eager_only=True).schema["c"] == nw.String
    path = write_parquet(tmp_path / "rows.parquet", a=[1, 3], c=[None, None])
    frame = read_table_file(path, text={"a", "c"})
    assert_same(columns(frame), {"a": ["1", "3"], "c": [None, None]})
    arff = "@attribute a {1, na}\n@attribute b real\n@data\nna, 1\n1, 2\n"
    frame = read_table_file(write(tmp_path, "rows.arff", arff), text={"a"})
    assert_same(columns(frame), {"a": ["na", "1"], "b": [1.0, 2.0]})


def test_wide_headers_are_refused_at_once(tmp_path):
    names = [f"c{i}" for i in range(100_000)]
    for header, told in ((names * 2, "'c9' and 99990 more"), (names, "has 1 cells; the header has 100000")):
        with pytest.raises(ValueError, match=told):
            read_table_file(write(tmp_path, "wide.csv", ",".join(header) + "\n1\n"))


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
        ("rows.arff", "@attribute t {a, b, a}\n@data\na\n", "attribute 't' .* declares 'a' twice"),
        (
            "rows.arff",
            "@attribute t {a, b}\n@data\na\nc\n",
            "attribute 't' .* has the value 'c'; it declares 'a', 'b'",
        ),
        ("rows.arff", "@attribute t {a, b}\n@data\n'a' b\n", "cannot be read from \"'a' b\" on"),
        ("rows.parquet", "no such thing", "cannot be read as Parquet"),
    ],
)
def test_refusals(tmp_path, name, text, told):
    with pytest.raises(ValueError, match=told):
        read_table_file(write(tmp_path, name, text))


def test_no_file_and_no_library(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        read_table_file(tmp_path / "nothing.csv")
    with tuned(frame_libraries=("no_such_library",)), pytest.raises(ValueError, match=r"arraylearn\[files\]"):
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
