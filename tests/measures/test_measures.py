"""Measures: the worked examples, SciPy, zeros, dtypes, batches and the laws they obey."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from arraylearn import measures
from tests.backends.assertions import assert_close

GAINS = (
    "information_gain",
    "gain_ratio",
    "symmetric_gain_ratio",
    "chi2",
    "gini_gain",
    "error_gain",
    "accuracy",
)
# split measures, with both normalizations of the symmetric gain ratio
DOORS = {name: getattr(measures, name) for name in GAINS}
DOORS["symmetric_gain_ratio_sum"] = lambda counts: measures.symmetric_gain_ratio(counts, normalization="sum")

# table (branch, class) of each attribute of the worked examples
DRUG = {"sex": [[3, 3], [3, 3]], "pressure": [[0, 3], [3, 3], [3, 0]], "age 39.5": [[4, 2], [2, 4]]}
TENNIS = {
    "outlook": [[2, 3], [4, 0], [3, 2]],
    "temperature": [[2, 2], [4, 2], [3, 1]],
    "humidity": [[3, 4], [6, 1]],
    "wind": [[6, 2], [3, 3]],
}
ELECTRONICS = {
    "age": [[2, 3], [4, 0], [3, 2]],
    "income": [[2, 2], [4, 2], [3, 1]],
    "student": [[3, 4], [6, 1]],
    "credit": [[6, 2], [3, 3]],
}
HIRE = {
    "degree": [[3, 2], [4, 1], [1, 3]],
    "experience": [[5, 1], [1, 3], [2, 2]],
    "language": [[2, 5], [6, 1]],
    "visa": [[4, 3], [4, 3]],
}
FLAGS = {"A": [[4, 3], [0, 3]], "B": [[3, 1], [1, 5]]}

tables = arrays(np.int64, st.tuples(*[st.integers(1, 5)] * 2), elements=st.integers(0, 50))


def gains_of(rung, example, measure):
    return {
        name: float(rung.to_host(DOORS[measure](rung.from_host(table)))) for name, table in example.items()
    }


@pytest.mark.parametrize(
    ("example", "measure", "expected"),
    [
        (DRUG, "information_gain", {"sex": 0, "pressure": 0.5, "age 39.5": 0.0817}),
        (DRUG, "accuracy", {"sex": 0.5, "pressure": 0.75, "age 39.5": 0.6667}),
        (
            TENNIS,
            "information_gain",
            {"outlook": 0.2467, "temperature": 0.0292, "humidity": 0.1518, "wind": 0.0481},
        ),
        (ELECTRONICS, "gain_ratio", {"age": 0.1564, "income": 0.0188, "student": 0.1518, "credit": 0.0488}),
        (
            HIRE,
            "information_gain",
            {"degree": 0.1488, "experience": 0.1891, "language": 0.2578, "visa": 0.0},
        ),
        (FLAGS, "information_gain", {"A": 0.2813, "B": 0.2564}),
        (FLAGS, "gini_gain", {"A": 0.1371, "B": 0.1633}),
    ],
)
def test_worked_examples(rung, example, measure, expected):
    assert gains_of(rung, example, measure) == pytest.approx(expected, abs=6e-5)


def test_impurities_of_the_worked_examples(rung):
    assert float(rung.to_host(measures.entropy(rung.from_host([9, 5])))) == pytest.approx(0.940, abs=5e-4)
    assert float(rung.to_host(measures.gini(rung.from_host([4, 2])))) == pytest.approx(0.4444, abs=5e-5)
    assert float(rung.to_host(measures.error(rung.from_host([4, 2])))) == pytest.approx(1 / 3)


def test_weighted_gini_of_cart_toy(rung):
    # salaries of G and B below and above each threshold: what is left of 4/9
    tables = [[[0, 1], [4, 1]], [[0, 2], [4, 0]], [[1, 2], [3, 0]], [[2, 2], [2, 0]], [[3, 2], [1, 0]]]
    after = 4 / 9 - rung.to_host(measures.gini_gain(rung.from_host(tables)))
    np.testing.assert_allclose(after, [0.2667, 0.0, 0.2222, 0.3333, 0.4], atol=5e-5)


def test_symmetric_gain_ratios_by_hand(rung, dtype):
    table = rung.from_host([[2, 3], [4, 0], [3, 2]], dtype)
    gain = 0.24674981977443933
    branch, label = stats.entropy([5, 4, 5], base=2), stats.entropy([9, 5], base=2)
    joint = stats.entropy([2, 3, 4, 3, 2], base=2)
    assert_close(measures.symmetric_gain_ratio(table), gain / joint, dtype=dtype)
    by_sum = measures.symmetric_gain_ratio(table, normalization="sum")
    assert_close(by_sum, gain / (branch + label), dtype=dtype)


@pytest.mark.parametrize("measure", DOORS)
def test_batches_dtype_and_no_sync(rung, dtype, measure, no_sync):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 30, (2, 3, 4, 5))
    with no_sync():
        found = DOORS[measure](rung.from_host(counts, dtype))
    one_by_one = [[DOORS[measure](counts[i, j].astype(float)) for j in range(3)] for i in range(2)]
    assert_close(found, np.asarray(one_by_one), dtype=dtype, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("impurity", ["entropy", "gini", "error"])
def test_impurities_in_batches(rung, dtype, impurity, no_sync):
    counts = np.random.default_rng(0).integers(0, 30, (3, 4, 5))
    with no_sync():
        found = getattr(measures, impurity)(rung.from_host(counts, dtype))
    p = counts / counts.sum(-1, keepdims=True)
    expected = {
        "entropy": stats.entropy(p, axis=-1, base=2),
        "gini": 1 - (p**2).sum(-1),
        "error": 1 - p.max(-1),
    }
    assert_close(found, expected[impurity], dtype=dtype, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("measure", DOORS)
def test_zeros_give_zero(rung, dtype, measure):
    zeros = rung.from_host(np.zeros((3, 2)), dtype)
    assert_close(DOORS[measure](zeros), 0.0, dtype=dtype)
    with_empty = rung.from_host([[5, 2, 0], [0, 0, 0], [1, 6, 0]], dtype)
    without = rung.from_host([[5, 2], [1, 6]], dtype)
    assert_close(DOORS[measure](with_empty), DOORS[measure](without), dtype=dtype)


@pytest.mark.parametrize("impurity", ["entropy", "gini", "error"])
def test_no_cases_no_impurity(rung, dtype, impurity):
    found = getattr(measures, impurity)(rung.from_host([[0, 0, 0], [0, 7, 0]], dtype))
    assert_close(found, [0.0, 0.0], dtype=dtype)


def test_integers_become_the_widest_float(rung):
    found = measures.gini_gain(rung.from_host(np.asarray([[3, 1], [2, 2]], dtype=np.int32)))
    assert_close(found, np.asarray(0.03125, dtype=rung.float_dtypes[-1]))


@pytest.mark.parametrize("measure", DOORS)
@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_scale_of_weights(rung, dtype, measure, scale):
    table = np.asarray([[5.0, 2.0], [1.0, 6.0]])
    wanted = float(DOORS[measure](table)) * (scale if measure == "chi2" else 1.0)
    assert_close(DOORS[measure](rung.from_host(table * scale, dtype)), wanted, dtype=dtype, rtol=1e-5)


@given(tables)
def test_chi2_is_pearson(table):
    kept = table[table.sum(1) > 0][:, table.sum(0) > 0]
    if kept.size == 0:
        assert measures.chi2(table) == 0
    else:
        expected = stats.chi2_contingency(kept, correction=False).statistic
        assert measures.chi2(table) == pytest.approx(expected, abs=1e-9)


@given(tables, st.randoms(use_true_random=False))
def test_order_of_branches_and_classes_does_not_matter(table, random):
    branches, classes = list(range(table.shape[0])), list(range(table.shape[1]))
    random.shuffle(branches)
    random.shuffle(classes)
    for measure in DOORS.values():
        assert measure(table[branches][:, classes]) == pytest.approx(measure(table), abs=1e-12)


@given(tables)
def test_merging_branches_never_gains(table):
    merged = np.concatenate([table[:1] + table[1:2].sum(0), table[2:]])
    for name in ("information_gain", "gini_gain", "error_gain"):
        assert DOORS[name](merged) <= DOORS[name](table) + 1e-12


@given(tables)
def test_splitting_alike_gains_nothing(table):
    # two branches of the same shares of classes are one branch
    doubled = np.concatenate([table, table])
    for name in ("information_gain", "gini_gain", "error_gain"):
        assert DOORS[name](doubled) == pytest.approx(DOORS[name](table), abs=1e-12)


@given(arrays(np.int64, 4, elements=st.integers(0, 50)), arrays(np.int64, 3, elements=st.integers(1, 50)))
def test_independence_is_exactly_zero(shares, sizes):
    table = sizes[:, None] * shares[None, :]
    assert measures.information_gain(table) == 0
    assert measures.gini_gain(table) == 0
    assert measures.error_gain(table) == 0


@given(tables)
def test_bounds_and_relations(table):
    gain = measures.information_gain(table)
    assert 0 <= gain <= measures.entropy(table.sum(0)) + 1e-12
    assert gain == pytest.approx(measures.information_gain(table.T), abs=1e-12)
    assert 0 <= measures.symmetric_gain_ratio(table) <= 1 + 1e-12
    assert 0 <= measures.symmetric_gain_ratio(table, normalization="sum") <= 0.5 + 1e-12
    share = table.sum(1) / max(1, table.sum())
    for impurity, measure in (
        ("gini", "gini_gain"),
        ("error", "error_gain"),
        ("entropy", "information_gain"),
    ):
        before = getattr(measures, impurity)(table.sum(0))
        after = (share * getattr(measures, impurity)(table)).sum()
        assert DOORS[measure](table) == pytest.approx(before - after, abs=1e-12)


def test_refusals():
    with pytest.raises(ValueError, match=r"`counts` must have the axes \(..., branch, class\); got"):
        measures.gain_ratio([1, 2])
    with pytest.raises(ValueError, match="`normalization` must be 'joint' or 'sum'; got 'max'"):
        measures.symmetric_gain_ratio([[1, 2]], normalization="max")
    assert set(measures.IMPURITIES) == {"entropy", "gini", "error"}
    by_name = {"entropy": "information_gain", "gini": "gini_gain", "error": "error_gain"}
    assert {by_name.get(name, name) for name in measures.MEASURES} == set(DOORS)
