"""Data frames as tables."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pytest

from arraylearn.backend.namespace import HOST, Place
from arraylearn.table import learn_schema, open_frame, read_table
from tests.backends.assertions import assert_close

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

DATA = {
    "age": [20, 73, 37, 33],
    "sex": ["male", "female", None, "male"],
    "weight": [70.5, None, 61.0, float("nan")],
    "smoker": [True, False, True, None],
}
NUMERIC = [[20, 70.5], [73, np.nan], [37, 61.0], [33, np.nan]]
CODES = [[1, 0, -1, 1], [1, 0, 1, -1]]

MAKERS = {
    "pandas": pd.DataFrame,
    "pandas_nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "pandas_object": lambda data: pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in data.items()}),
    "pandas_arrow": lambda data: pd.DataFrame(data).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_columns_by_their_types(make):
    schema = learn_schema(make(DATA))
    assert schema.names == ("age", "sex", "weight", "smoker")
    assert schema.has_names
    assert [column.kind for column in schema.columns] == ["numeric", "nominal", "numeric", "nominal"]
    assert schema.domains == (("female", "male"), (False, True))


def test_values(make):
    frame = make(DATA)
    table = read_table(frame, learn_schema(frame), HOST)
    np.testing.assert_array_equal(table.numeric, NUMERIC)
    np.testing.assert_array_equal(table.codes, CODES)
    assert table.numeric.dtype == np.float64
    assert table.codes.dtype == np.int32


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "pandas_object"])
def test_rows_without_any_value(library):
    """A column of None has no type of its own, or another one than in fit: all of it is missing."""
    schema = learn_schema(MAKERS["pandas"](DATA))
    rows = MAKERS[library]({"age": [None], "sex": [None], "weight": [None], "smoker": [None]})
    table = read_table(rows, schema, HOST)
    np.testing.assert_array_equal(table.numeric, [[np.nan, np.nan]])
    np.testing.assert_array_equal(table.codes, [[-1], [-1]])
    rows = MAKERS[library]({"age": [None], "sex": ["male"], "weight": [61.0], "smoker": [None]})
    table = read_table(rows, schema, HOST)
    np.testing.assert_array_equal(table.numeric, [[np.nan, 61.0]])
    np.testing.assert_array_equal(table.codes, [[1], [-1]])


def test_any_frame_reads_by_any_schema(make):
    schema = learn_schema(pl.DataFrame(DATA))
    other = make({"age": [1, 2], "sex": ["divers", "male"], "weight": [1.0, 2.0], "smoker": [False, True]})
    table = read_table(other, schema, HOST)
    np.testing.assert_array_equal(table.numeric, [[1, 1], [2, 2]])
    np.testing.assert_array_equal(table.codes, [[-1, 1], [0, 1]])


def test_frames_move_to_the_place(rung, xp, device):
    frame = pl.DataFrame(DATA)
    table = read_table(frame, learn_schema(frame), Place(xp, device))
    assert_close(table.numeric, np.array(NUMERIC), dtype=rung.float_dtypes[-1])
    assert_close(table.codes, np.array(CODES, dtype=np.int32))


def test_a_frame_of_floats_is_one_block():
    x = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(x, columns=list("abc"))
    assert np.shares_memory(read_table(frame, learn_schema(frame), HOST).numeric, frame.to_numpy())
    for make in (pl.DataFrame, pa.table):
        frame = make({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})
        np.testing.assert_array_equal(read_table(frame, learn_schema(frame), HOST).numeric, x)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "pandas_object"])
def test_single_precision_frames_stay_single(name):
    half = np.full(3, 0.5, dtype=np.float32)
    frame = MAKERS[name]({"a": half, "b": -half})
    table = read_table(frame, learn_schema(frame), HOST)
    assert table.numeric.dtype == np.float32
    np.testing.assert_array_equal(table.numeric, [[0.5, -0.5]] * 3)


def test_declared_names(make):
    frame = make({"code": [3, 7, None, 3], "x": [1.0, 2.0, 3.0, 4.0]})
    for chosen in (["code"], [0], [True, False]):
        schema = learn_schema(frame, categorical_features=chosen)
        assert schema.domains == ((3, 7),)
        np.testing.assert_array_equal(read_table(frame, schema, HOST).codes, [[0, 1, -1, 0]])


def test_boolean_columns_not_declared_are_numbers(make):
    frame = make({"flag": [True, False, None]})
    schema = learn_schema(frame, categorical_features=[])
    np.testing.assert_array_equal(read_table(frame, schema, HOST).numeric, [[1], [0], [np.nan]])


def test_text_columns_not_declared_are_refused(make):
    with pytest.raises(ValueError, match="column 'sex'"):
        learn_schema(make({"sex": ["a", "b"]}), categorical_features=[])


# ---- categoricals and enums


def test_declared_categories_keep_their_order_and_the_unseen_ones():
    declared = ["small", "medium", "large", "huge"]
    values = ["large", "small", None, "medium"]
    frames = [
        pd.DataFrame({"size": pd.Categorical(values, categories=declared, ordered=True)}),
        pd.DataFrame({"size": pd.Categorical(values, categories=declared)}),
        pl.DataFrame({"size": pl.Series(values, dtype=pl.Enum(declared))}),
    ]
    for frame in frames:
        schema = learn_schema(frame)
        assert schema.domains == (tuple(declared),)
        np.testing.assert_array_equal(read_table(frame, schema, HOST).codes, [[2, 0, -1, 1]])


def test_categoricals_without_a_declaration_are_sorted():
    values = ["b", "a", None, "c", "a"]
    others = pl.Series(["z", "y", "a"], dtype=pl.Categorical)  # shares the string cache
    frames = [
        pl.DataFrame({"v": pl.Series(values, dtype=pl.Categorical)}),
        pa.table({"v": pa.array(values).dictionary_encode()}),
        pd.DataFrame({"v": pd.array(values, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))}),
        pa.table(
            {
                "v": pa.chunked_array(
                    [pa.array(values[:2]).dictionary_encode(), pa.array(values[2:]).dictionary_encode()]
                )
            }
        ),
    ]
    for frame in frames:
        schema = learn_schema(frame)
        assert schema.domains == (("a", "b", "c"),)
        np.testing.assert_array_equal(read_table(frame, schema, HOST).codes, [[1, 0, -1, 2, 0]])
    codes = read_table(pl.DataFrame({"v": others}), schema, HOST).codes
    np.testing.assert_array_equal(codes, [[-1, -1, 0]])


def test_a_frame_opened_once_reads_the_same():
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(["u", None, "v"], categories=["v", "w", "u"]),
            "s": ["b", "a", None],
            "n": [1.0, np.nan, 3.0],
            "b": [True, False, True],
        }
    )
    opened = open_frame(frame)
    schema = learn_schema(opened)
    assert schema == learn_schema(frame)
    once, twice = read_table(opened, schema, HOST), read_table(frame, schema, HOST)
    np.testing.assert_array_equal(once.codes, [[2, -1, 0], [1, 0, -1], [1, 0, 1]])
    np.testing.assert_array_equal(twice.codes, once.codes)
    np.testing.assert_array_equal(twice.numeric, once.numeric)
    # the same categories declared in another order
    frame["c"] = frame["c"].cat.set_categories(["u", "v", "x"])
    np.testing.assert_array_equal(read_table(frame, schema, HOST).codes[0], [2, -1, 0])
    array = np.zeros((2, 2))
    assert open_frame(array) is array
    assert open_frame([[1.0]]) == [[1.0]]


def test_categories_that_are_numbers():
    frame = pd.DataFrame({"c": pd.Categorical([3, 1, None, 3], categories=[3, 2, 1])})
    schema = learn_schema(frame)
    assert schema.domains == ((3, 2, 1),)
    np.testing.assert_array_equal(read_table(frame, schema, HOST).codes, [[0, 2, -1, 0]])
    np.testing.assert_array_equal(read_table(np.array([[1], [2], [5]]), schema, HOST).codes, [[2, 1, -1]])


def test_declared_order_on_a_device(rung, xp, device):
    schema = learn_schema(pd.DataFrame({"c": pd.Categorical([3, 1], categories=[3, 2, 1])}))
    table = read_table(rung.from_host([[1], [2], [5], [3]]), schema, Place(xp, device))
    assert_close(table.codes, np.array([[2, 1, -1, 0]], dtype=np.int32))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"s": pd.Series([None, None], dtype="str")}),
        pl.DataFrame({"s": pl.Series([None, None], dtype=pl.String)}),
        pa.table({"s": pa.array([None, None], pa.string())}),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_a_text_column_without_values(frame):
    schema = learn_schema(frame)
    assert schema.n_values == (0,)
    np.testing.assert_array_equal(read_table(frame, schema, HOST).codes, [[-1, -1]])


# ---- names


def test_names_must_be_those_of_fit(make):
    schema = learn_schema(make({"a": [1.0], "b": [2.0]}))
    with pytest.raises(ValueError, match="column 0 of `X` is 'b'; in fit it was 'a'"):
        read_table(make({"b": [1.0], "a": [2.0]}), schema, HOST)
    np.testing.assert_array_equal(read_table([[1.0, 2.0]], schema, HOST).numeric, [[1.0, 2.0]])


def test_numbered_columns_have_no_names():
    frame = pd.DataFrame([[1.0, "a"], [2.0, "b"]])
    schema = learn_schema(frame)
    assert not schema.has_names
    assert schema.names == ("x0", "x1")
    np.testing.assert_array_equal(read_table(frame, schema, HOST).codes, [[0, 1]])


def test_unknown_names():
    with pytest.raises(ValueError, match="got 'size'; the columns are 'a', 'b'"):
        learn_schema(pd.DataFrame({"a": [1], "b": [2]}), categorical_features=["size"])


# ---- refusals


def test_shapes():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        learn_schema(pd.Series([1, 2]))
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 1\)\)"):
        learn_schema(pl.DataFrame({"a": []}))
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(2, 0\)\)"):
        learn_schema(pd.DataFrame(index=[0, 1]))


def test_lazy_frames():
    with pytest.raises(TypeError, match=r"lazy frame.*\.collect\(\)"):
        learn_schema(pl.DataFrame({"a": [1]}).lazy())


def test_types_that_are_no_values(make):
    with pytest.raises(TypeError, match="column 'when'"):
        learn_schema(make({"when": [datetime.date(2020, 1, 1)]}))
    with pytest.raises(TypeError, match="column 'many'"):
        learn_schema(make({"many": [[1, 2], [3]]}))


def test_kinds_must_be_those_of_fit(make):
    schema = learn_schema(make({"a": [1.0, 2.0], "s": ["u", "v"]}))
    if make is not MAKERS["pandas_object"]:  # there any object may be a category: an unseen one
        with pytest.raises(ValueError, match="column 's' held text in fit"):
            read_table(make({"a": [1.0], "s": [3.0]}), schema, HOST)
    with pytest.raises(ValueError, match="column 'a'"):
        read_table(make({"a": ["u"], "s": ["u"]}), schema, HOST)


def test_decimals(make):
    frame = make({"price": [decimal.Decimal("1.50"), None]})
    np.testing.assert_array_equal(read_table(frame, learn_schema(frame), HOST).numeric, [[1.5], [np.nan]])


def test_many_rows():
    rng = np.random.default_rng(0)
    words = rng.choice(["red", "green", "blue"], 20_000)
    numbers = rng.normal(size=(20_000, 3))
    expected = np.unique(words, return_inverse=True)[1]
    for make in MAKERS.values():
        frame = make({"w": words, "a": numbers[:, 0], "b": numbers[:, 1], "c": numbers[:, 2]})
        table = read_table(frame, learn_schema(frame), HOST)
        np.testing.assert_array_equal(table.codes[0], expected)
        np.testing.assert_array_equal(table.numeric, numbers)


def test_columns_of_nothing_but_null_are_numeric():
    for frame in (pl.DataFrame({"a": [None, None], "b": [1, 2]}), pa.table({"a": [None, None], "b": [1, 2]})):
        schema = learn_schema(frame)
        assert schema.numeric_idx == (0, 1)
        np.testing.assert_array_equal(read_table(frame, schema, HOST).numeric, [[np.nan, 1], [np.nan, 2]])


def test_names_twice():
    with pytest.raises(ValueError, match="unique"):
        learn_schema(pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]))
