"""Class labels of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning

from arraylearn.table import encode_labels, encode_with

KINDS = {
    "str": ["no", "yes", "no", "maybe"],
    "object": np.array(["no", "yes", "no", "maybe"], dtype=object),
    "bytes": np.array([b"no", b"yes", b"no", b"maybe"]),
    "int": [5, 7, 5, 2],
    "codes": np.array([0, 2, 1, 2]),
    "small_int": np.array([-3, 100, -128, 100], dtype=np.int8),
    "unsigned": np.array([5, 2**63, 5, 7], dtype=np.uint64),
    "bool": [True, False, True, True],
    "float": [1.0, -2.0, 1.0, 3.0],
    "big_float": [1e300, -2.0, 1e300, 3.0],
    "far_apart": [-(2**62), 2**62, 5, 5],
    "object_int": np.array([3, 1, 3, 2], dtype=object),
    "object_bool": np.array([True, False, True, True], dtype=object),
    "tuple": ("b", "a", "b", "c"),
    "range": range(4),
    "one": ["a", "a"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_those_of_unique(kind):
    y = KINDS[kind]
    labels = encode_labels(y)
    expected, codes = np.unique(np.asarray(y), return_inverse=True)
    assert labels.classes.tolist() == expected.tolist()
    np.testing.assert_array_equal(labels.codes, codes)
    assert labels.codes.dtype == np.int64
    assert labels.classes.dtype == expected.dtype or kind.startswith("object_")
    np.testing.assert_array_equal(encode_with(y, labels.classes), codes)


@pytest.mark.parametrize("name", ["bool", "uint8", "int32", "int64", "float32"])
def test_arrays_of_every_library(rung, name):
    labels = encode_labels(rung.from_host([1, 0, 1], name))
    np.testing.assert_array_equal(labels.codes, [1, 0, 1])
    assert labels.classes.dtype == name


def test_series_of_every_library():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    values = ["b", "a", "c", "a"]
    for y in (
        pd.Series(values),
        pd.Series(values, dtype="category"),
        pd.Series(values, dtype="string"),
        pd.Categorical(values, categories=["c", "b", "a", "z"]),
        pd.Index(values),
        pl.Series(values),
        pl.Series(values, dtype=pl.Categorical),
        pl.Series(values, dtype=pl.Enum(["c", "b", "a", "z"])),
        pa.chunked_array([values]),
        pa.chunked_array([pa.array(values).dictionary_encode()]),
    ):
        labels = encode_labels(y)
        assert labels.classes.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(labels.codes, [1, 0, 2, 0])
    for y in (pd.Series([2, 1, 2]), pd.Series([2, 1, 2], dtype="Int64"), pl.Series([2, 1, 2])):
        np.testing.assert_array_equal(encode_labels(y).codes, [1, 0, 1])


def test_missing_labels():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    for y in (
        [1.0, np.nan],
        ["a", None],
        np.array(["a", np.nan], dtype=object),
        pd.Series(["a", None]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None], dtype="category"),
        pl.Series(["a", None]),
        pl.Series([1, None]),
        pa.chunked_array([pa.array(["a", None]).dictionary_encode()]),
    ):
        with pytest.raises(ValueError, match=r"Input y contains NaN\."):
            encode_labels(y)


def test_a_column_is_flattened_with_a_warning(rung):
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        labels = encode_labels(rung.from_host([[1], [0]], "int32"))
    np.testing.assert_array_equal(labels.codes, [1, 0])
    pd = pytest.importorskip("pandas")
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        encode_labels(pd.DataFrame({"y": ["a", "b"]}))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([[1, 2], [3, 4]], r"y should be a 1d array, got an array of shape \(2, 2\) instead"),
        (5, r"y should be a 1d array, got an array of shape \(\)"),
        ([0.5, 1.5], "Unknown label type: continuous"),
        ([1.0, np.inf], "Input y contains infinity"),
        ([1j, 2], "Complex data not supported"),
        (["a", 1], "Unknown label type: .* one kind .* got int, str"),
        (np.array([{}, []], dtype=object), "Unknown label type: .* got dict, list"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "Unknown label type: datetime64"),
        ([], r"Found array with 0 sample\(s\)"),
    ],
)
def test_refusals(y, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(y)


def test_sparse_labels():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="sparse"):
        encode_labels(sparse.csr_array(np.eye(2)))


def test_unknown_labels_are_named():
    classes = encode_labels(["a", "b"]).classes
    with pytest.raises(ValueError, match=r"not among the classes \['a', 'b'\]: \['c'\]"):
        encode_with(["a", "c"], classes)
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.\]: \[99\]"):
        encode_with([99], np.arange(20))


def test_codes_are_not_copied():
    y = np.array([0, 1, 2, 1])
    assert encode_labels(y).codes is y


# NumPy's strings cannot end in a zero character
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=3)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1) | st.lists(WORDS, min_size=1))
def test_labels_come_back(y):
    labels = encode_labels(y)
    assert labels.classes[labels.codes].tolist() == y
    assert labels.classes.tolist() == sorted(set(y))
