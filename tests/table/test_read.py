"""Arrays of numbers, arrays of objects and lists as tables, on every rung."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arraylearn.backend.namespace import HOST, Place, locate, same_place
from arraylearn.table import Column, Schema, categories, holds_bad_numbers, learn_schema, read_table
from arraylearn.table.categories import folded
from tests.backends.assertions import assert_close

MIXED = np.array([[3, 0.5, 10], [1, np.nan, 12], [3, 1.5, np.nan], [2, -2.0, 10]])


@pytest.fixture
def place(rung, xp, device):
    return Place(xp, device)


# ---- arrays of numbers


def test_floats_pass_through_without_a_copy(rung, place, dtype):
    x = rung.from_host(MIXED, dtype)
    table = read_table(x, learn_schema(x), place)
    assert table.numeric is x
    assert_close(table.codes, np.empty((0, 4), dtype=np.int32))
    assert table.n_rows == 4


@pytest.mark.parametrize("name", ["bool", "uint8", "int32", "int64"])
def test_integers_and_booleans_become_floats(rung, place, name):
    x = rung.from_host([[0, 1], [1, 1]], name)
    schema = learn_schema(x)
    assert [column.kind for column in schema.columns] == ["numeric", "numeric"]
    expected = rung.float_dtypes[-1]
    assert_close(read_table(x, schema, place).numeric, [[0.0, 1.0], [1.0, 1.0]], dtype=expected)


def test_declared_columns(rung, place, dtype):
    x = rung.from_host(MIXED, dtype)
    schema = learn_schema(x, categorical_features=[0, 2])
    assert schema.columns[0] == Column("x0", "nominal", (1.0, 2.0, 3.0))
    assert schema.columns[1] == Column("x1", "numeric")
    assert schema.columns[2].domain == (10.0, 12.0)
    assert schema.numeric_idx == (1,)
    assert schema.nominal_idx == (0, 2)
    assert schema.n_values == (3, 2)
    assert not schema.has_names
    table = read_table(x, schema, place)
    assert_close(table.numeric, MIXED[:, 1:2], dtype=dtype)
    assert_close(table.codes, np.array([[2, 0, 2, 1], [0, 1, -1, 0]], dtype=np.int32))


@pytest.mark.parametrize("name", ["bool", "uint8", "int32", "int64"])
def test_declared_integers(rung, place, name):
    values = np.array([[1, 0], [1, 1], [0, 1]])
    x = rung.from_host(values, name)
    schema = learn_schema(x, categorical_features=[True, True])
    assert schema.columns[0].domain == (0, 1)
    assert type(schema.columns[0].domain[0]) is (bool if name == "bool" else int)
    table = read_table(x, schema, place)
    assert_close(table.codes, values.T.astype(np.int32))
    assert tuple(table.numeric.shape) == (3, 0)


def test_unseen_categories_are_missing(rung, place, dtype):
    schema = learn_schema(MIXED, categorical_features=[0])
    unseen = [[1, 0, 0], [1.5, 0, 0], [99, 0, 0], [-99, 0, 0], [np.inf, 0, 0], [-np.inf, 0, 0], [3, 0, 0]]
    codes = read_table(rung.from_host(unseen, dtype), schema, place).codes
    assert_close(codes, np.array([[0, -1, -1, -1, -1, -1, 2]], dtype=np.int32))


def test_fractions_and_far_apart_integers_as_categories(rung, place, dtype):
    x = np.array([[0.5, 0], [0.25, 2**22], [np.nan, -5], [0.5, 7]])
    schema = learn_schema(rung.from_host(x, dtype), categorical_features=[0, 1])
    assert schema.domains == ((0.25, 0.5), (-5.0, 0.0, 7.0, 4194304.0))
    codes = read_table(rung.from_host(x, dtype), schema, place).codes
    assert_close(codes, np.array([[1, 0, -1, 1], [1, 3, 0, 2]], dtype=np.int32))


@pytest.mark.rungs("guarded")
def test_reading_by_a_schema_never_syncs(rung, place, no_sync):
    x = rung.from_host(MIXED, rung.float_dtypes[0])
    integers = rung.from_host([[1, 2, 10], [3, 2, 11]])
    schema = learn_schema(x, categorical_features=[0, 2])
    with no_sync():
        table = read_table(x, schema, place)
        whole = read_table(integers, schema, place)
        is_bad = holds_bad_numbers(place, x, nan_is_bad=False, limit=np.inf)
    assert not bool(is_bad)
    assert_close(table.numeric, MIXED[:, 1:2], dtype=rung.float_dtypes[0])
    assert rung.to_host(whole.numeric).tolist() == [[2], [2]]


def test_host_input_moves_to_the_place(rung, place):
    schema = learn_schema(MIXED, categorical_features=[0])
    table = read_table(MIXED, schema, place)
    assert_close(table.numeric, MIXED[:, 1:], dtype=rung.float_dtypes[-1])
    assert_close(table.codes, np.array([[2, 0, 2, 1]], dtype=np.int32))
    text = read_table([["a", 1], ["b", 2]], learn_schema([["a", 1], ["b", 2]]), place)
    assert_close(text.codes, np.array([[0, 1]], dtype=np.int32))
    assert_close(text.numeric, [[1.0], [2.0]], dtype=rung.float_dtypes[-1])


def test_device_input_comes_to_the_host(rung, dtype):
    x = rung.from_host(MIXED, dtype)
    schema = learn_schema(x, categorical_features=[0])
    table = read_table(x, schema, HOST)
    assert same_place(locate(table.codes), HOST)
    np.testing.assert_array_equal(table.codes, [[2, 0, 2, 1]])
    np.testing.assert_array_equal(table.numeric, MIXED[:, 1:])


def test_half_floats_become_single():
    table = read_table(MIXED.astype(np.float16), learn_schema(MIXED), HOST)
    assert table.numeric.dtype == np.float32


def test_foreign_byte_order():
    table = read_table(MIXED.astype(">f8"), learn_schema(MIXED), HOST)
    assert table.numeric.dtype == np.float64
    assert table.numeric.dtype.isnative


@pytest.mark.parametrize(
    ("value", "limit", "is_bad", "is_bad_with_nan"),
    [
        (0.0, np.inf, False, False),
        (np.nan, np.inf, False, True),
        (np.inf, np.inf, True, True),
        (-np.inf, np.inf, True, True),
        (-7.0, 7.0, False, False),
        (-7.5, 7.0, True, True),
        (np.nan, 7.0, False, True),
    ],
)
@pytest.mark.parametrize("n", [2, 70_000])  # of four columns: one chunk, and several
def test_bad_numbers(rung, place, dtype, n, value, limit, is_bad, is_bad_with_nan):
    x = np.ones((n, 4))
    x[n // 2, 1] = value
    x = rung.from_host(x, dtype)
    for nan_is_bad, expected in ((False, is_bad), (True, is_bad_with_nan)):
        assert_close(holds_bad_numbers(place, x, nan_is_bad=nan_is_bad, limit=limit), np.array(expected))


def test_nothing_holds_no_bad_numbers(rung, place, dtype):
    nothing = rung.from_host(np.zeros((3, 0)), dtype)
    assert_close(holds_bad_numbers(place, nothing, nan_is_bad=True, limit=1.0), np.array(False))


def test_many_chunks_are_judged_by_threads():
    x = np.ones((33, 1 << 17))
    assert not holds_bad_numbers(HOST, x, nan_is_bad=True, limit=np.inf)
    x[-1, -1] = np.nan
    assert holds_bad_numbers(HOST, x, nan_is_bad=True, limit=np.inf)


def test_gradients_stay_behind():
    torch = pytest.importorskip("torch")
    x = torch.ones((3, 2), requires_grad=True)
    assert not read_table(x, learn_schema(x), locate(x)).numeric.requires_grad


def test_plain_schemas_are_shared():
    assert learn_schema(MIXED) is learn_schema(MIXED[:2])
    assert learn_schema(MIXED).names == ("x0", "x1", "x2")
    assert learn_schema(MIXED, categorical_features=None) is learn_schema(MIXED, categorical_features=[])


@settings(max_examples=60)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 30), st.integers(1, 4)),
        elements=st.sampled_from([np.nan, 0.0, -0.0, 1.0, 2.5, -3.0, 1e9, 7.0]),
    )
)
def test_codes_give_back_the_values(x):
    schema = learn_schema(x, categorical_features=range(x.shape[1]))
    codes = read_table(x, schema, HOST).codes
    for j, domain in enumerate(schema.domains):
        assert list(domain) == sorted(set(x[~np.isnan(x[:, j]), j].tolist()))
        np.testing.assert_array_equal(np.append(domain, np.nan)[codes[j]], x[:, j])


@settings(max_examples=40)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 20), st.integers(1, 3)),
        elements=st.sampled_from([np.nan, 0.0, 1.0, 2.5, -3.0, 1e9, np.inf]),
    ),
    st.lists(st.sampled_from([0.0, 1.0, 2.5, -3.0, 1e9]), min_size=0, max_size=5, unique=True),
)
def test_device_and_host_encode_alike(x, domain):
    schema = Schema(tuple(Column(f"x{j}", "nominal", tuple(domain)) for j in range(x.shape[1])))
    on_host = categories.encode_numbers(x, range(x.shape[1]), schema.domains)
    on_device = categories.encode_on_device(HOST, x.T, schema.domains)
    np.testing.assert_array_equal(on_host, on_device)
    assert on_device.dtype == np.int32


def test_many_rows_in_many_blocks():
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 40, size=(70_000, 3))
    x[:, 1] *= 1_000_000  # too far apart for a table
    schema = learn_schema(x, categorical_features=[0, 1, 2])
    codes = read_table(x, schema, HOST).codes
    for j in range(3):
        domain, expected = np.unique(x[:, j], return_inverse=True)
        assert schema.domains[j] == tuple(domain.tolist())
        np.testing.assert_array_equal(codes[j], expected)


# ---- objects, text, lists


def test_object_columns_are_told_apart_by_their_values():
    x = np.array(
        [
            [1, "red", True, None, 2.5, "a"],
            [2, None, False, None, np.nan, 3],
            [np.float32(4), "blue", None, None, 1, 2.5],
        ],
        dtype=object,
    )
    schema = learn_schema(x)
    kinds = [column.kind for column in schema.columns]
    assert kinds == ["numeric", "nominal", "nominal", "numeric", "numeric", "nominal"]
    assert schema.domains == (("blue", "red"), (False, True), (2.5, 3, "a"))
    table = read_table(x, schema, HOST)
    np.testing.assert_array_equal(table.numeric, [[1, np.nan, 2.5], [2, np.nan, np.nan], [4, np.nan, 1]])
    np.testing.assert_array_equal(table.codes, [[1, -1, 0], [1, 0, -1], [2, 1, 0]])


def test_objects_of_numbers_are_numbers():
    x = np.random.default_rng(0).uniform(size=(5, 3))
    table = read_table(x.astype(object), learn_schema(x.astype(object)), HOST)
    np.testing.assert_array_equal(table.numeric, x)


def test_text_arrays_are_nominal():
    x = np.array([["b", "x"], ["a", "x"]])
    for text in (x, x.astype("S"), x.astype(object)):
        schema = learn_schema(text)
        assert schema.domains == (("a", "b"), ("x",))
        np.testing.assert_array_equal(read_table(text, schema, HOST).codes, [[1, 0], [0, 0]])


def test_lists_keep_numbers_beside_text():
    schema = learn_schema([["a", 1, 2.5], ["b", 2, None]])
    assert [column.kind for column in schema.columns] == ["nominal", "numeric", "numeric"]


def test_masked_values_are_missing():
    x = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(read_table(x, learn_schema(x), HOST).numeric, [[1, np.nan], [3, 4]])
    text = np.ma.masked_array([["a"], ["b"]], mask=[[True], [False]])
    schema = learn_schema(text)
    assert schema.domains == (("b",),)


def test_numbers_as_objects_fit_a_schema_of_numbers():
    schema = learn_schema(MIXED, categorical_features=[0])
    table = read_table(MIXED.astype(object), schema, HOST)
    np.testing.assert_array_equal(table.codes, [[2, 0, 2, 1]])
    np.testing.assert_array_equal(table.numeric, MIXED[:, 1:])


def test_pandas_missing_values_in_object_arrays():
    pd = pytest.importorskip("pandas")
    x = np.array([["a", 1], [pd.NA, pd.NA], [pd.NaT, 2.0]], dtype=object)
    schema = learn_schema(x)
    table = read_table(x, schema, HOST)
    np.testing.assert_array_equal(table.codes, [[0, -1, -1]])
    np.testing.assert_array_equal(table.numeric, [[1], [np.nan], [2]])


# ---- refusals


def test_dimensions(rung):
    flat = rung.from_host(np.ones(3), "float32")
    with pytest.raises(ValueError, match=r"(?s)Expected 2D array, got 1D array.*Reshape your data"):
        learn_schema(flat)
    with pytest.raises(ValueError, match="Expected 2D array, got 3D array"):
        learn_schema(rung.from_host(np.ones((1, 2, 3)), "float32"))
    with pytest.raises(ValueError, match="Expected 2D array, got scalar"):
        learn_schema(5.0)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        learn_schema([1, 2, 3])


def test_empty(rung):
    with pytest.raises(
        ValueError,
        match=r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required\.",
    ):
        learn_schema(rung.from_host(np.ones((0, 3)), "float32"))
    with pytest.raises(
        ValueError, match=r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required\."
    ):
        learn_schema(rung.from_host(np.ones((3, 0)), "float32"))


def test_complex(rung):
    with pytest.raises(ValueError, match="Complex data not supported"):
        learn_schema(rung.from_host(np.ones((2, 2), dtype=np.complex64)))
    with pytest.raises(ValueError, match="Complex data not supported"):
        learn_schema(np.array([[1j], [2.0]], dtype=object))


def test_sparse():
    sparse = pytest.importorskip("scipy.sparse")
    for container in (sparse.csr_matrix, sparse.csr_array, sparse.coo_array, sparse.dok_array):
        with pytest.raises(TypeError, match=r"sparse.*toarray"):
            learn_schema(container(np.eye(3)))
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="sparse"):
        learn_schema(torch.eye(3).to_sparse())


@pytest.mark.parametrize("row", [0, 2])
def test_objects_that_are_no_values(row):
    x = np.ones((3, 2), dtype=object)
    x[row, 0] = {"foo": "bar"}
    with pytest.raises(TypeError, match="argument must be a string or a number; got dict in column 0"):
        learn_schema(x)
    x[row, 0] = (1, 2)
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        learn_schema(x)
    schema = learn_schema(np.array([["a", 1], ["b", 2]], dtype=object))
    x[row, 0] = {"foo": "bar"}
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        read_table(x, schema, HOST)
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        read_table(x, learn_schema(np.ones((2, 2))), HOST)


def test_text_where_numbers_were():
    schema = learn_schema(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"column 1 is numeric; got the text 'red'.*categorical_features"):
        read_table([[1, "red"], [2, "blue"]], schema, HOST)
    with pytest.raises(ValueError, match="column 0 is numeric; got the text 'a'"):
        learn_schema([["a", 1]], categorical_features=[])


def test_numbers_where_text_was(rung):
    schema = learn_schema([["a", 1], ["b", 2]])
    with pytest.raises(ValueError, match="column 'x0' held categories such as 'a' in fit; got numbers"):
        read_table(rung.from_host(np.ones((2, 2)), "float32"), schema, HOST)


def test_dates_and_records():
    with pytest.raises(TypeError, match="Convert dates to numbers"):
        learn_schema(np.array([["2020-01-01"]], dtype="M8[D]"))


def test_ragged_rows():
    with pytest.raises(ValueError, match="rows have the same length"):
        learn_schema([[1, 2], [3]])


def test_other_number_of_columns():
    with pytest.raises(ValueError, match="`X` has 2 columns; the model was fitted on 3"):
        read_table(np.ones((2, 2)), learn_schema(np.ones((2, 3))), HOST)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("auto", "got 'auto'"),
        (3, "got 3"),
        ([5], "got 5 for 3 columns"),
        ([-1], "got -1 for 3 columns"),
        ([True, False], "a mask of 2 for 3 columns"),
        ([True, 1], "got True"),
        ([1.5], "got 1.5"),
        (["age"], "`X` has no column names"),
    ],
)
def test_categorical_features_says_what_it_takes(chosen, words):
    with pytest.raises(
        ValueError, match="`categorical_features` must be 'from_dtype', None, positions"
    ) as caught:
        learn_schema(MIXED, categorical_features=chosen)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "chosen", [[0, 2], (2, 0), np.array([0, 2]), [True, False, True], np.array([True, False, True]), {0, 2}]
)
def test_categorical_features_in_all_its_forms(chosen):
    assert learn_schema(MIXED, categorical_features=chosen).nominal_idx == (0, 2)


def test_integers_of_any_size_as_categories():
    x = np.array([[0, 2**63], [2**64 - 1, 2**63 + 1], [2**64 - 1, 2**63]], dtype=np.uint64)
    schema = learn_schema(x, categorical_features=[0, 1])
    assert schema.domains == ((0, 2**64 - 1), (2**63, 2**63 + 1))
    np.testing.assert_array_equal(read_table(x, schema, HOST).codes, [[0, 1, 1], [0, 1, 0]])
    far = learn_schema(np.array([[1e300]]), categorical_features=[0])
    assert read_table(np.array([[5]]), far, HOST).codes.tolist() == [[-1]]
    assert read_table(np.array([[1e300]]), far, HOST).codes.tolist() == [[0]]


@pytest.mark.parametrize("n", [5, 16, 35, 160])
def test_columns_are_reduced_some_rows_at_a_time(n):
    block = np.random.default_rng(n).normal(size=(n, 3))
    np.testing.assert_array_equal(folded(np.minimum, block), block.min(axis=0))
    np.testing.assert_array_equal(folded(np.maximum, np.asfortranarray(block)), block.max(axis=0))
    block[n - 1, 1] = np.nan
    np.testing.assert_array_equal(np.isnan(folded(np.minimum, block)), [False, True, False])
