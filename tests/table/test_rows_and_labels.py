"""Schema and labels in one copy are what they are in two."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.table import encode_labels, learn_schema, learn_schema_and_labels


@pytest.mark.parametrize("chosen", [[0, 2], None, "from_dtype", [True, True, True]])
def test_one_copy_is_as_good_as_two(rung, chosen):
    big = 2**62 + 1
    for X, y in (
        (np.array([[1.5, 2, np.nan], [1.5, 3, -4], [0, 2, 7]]), np.array([big, -big, 3])),
        (np.array([[big, 2, 1], [-big, 3, 1], [0, -2, 1]]), np.array([True, False, True])),
    ):
        if X.dtype == float and rung.float_dtypes == ("float32",):
            X = X.astype("float32")
        x, labels = rung.from_host(X), rung.from_host(y)
        schema, found = learn_schema_and_labels(x, labels, chosen)
        expected = encode_labels(y)
        assert schema == learn_schema(X, chosen)
        np.testing.assert_array_equal(found.codes, expected.codes)
        np.testing.assert_array_equal(found.classes, expected.classes)
        assert found.classes.dtype == expected.classes.dtype
