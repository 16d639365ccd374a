"""Class histograms and threshold scores: by loops, by the worked examples, by the measures themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arraylearn as al
from arraylearn import measures
from arraylearn.backend.dispatch import portable_only
from tests.backends.assertions import assert_close


def count_by_loops(bins, codes, n_bins, n_classes, nodes, n_nodes, weights):
    d, n = bins.shape
    hist = np.zeros((n_nodes, d, n_bins, n_classes), dtype=weights.dtype)
    for i in range(n):
        for j in range(d):
            hist[nodes[i], j, bins[j, i], codes[i]] += weights[i]
    return hist


def make_rows(seed, n=300, d=4, n_bins=9, n_classes=3, n_nodes=5):
    rng = np.random.default_rng(seed)
    return {
        "bins": rng.integers(0, n_bins, (d, n)),
        "codes": rng.integers(0, n_classes, n),
        "nodes": rng.integers(0, n_nodes, n),
        "integers": rng.integers(0, 4, n),
        "floats": rng.random(n),
    }


@pytest.mark.parametrize("dtype_of_bins", ["uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("kind", [None, "integers", "floats"])
def test_counts(rung, no_sync, dtype_of_bins, kind):
    rows = make_rows(0)
    weights = None
    if kind is not None:
        weights = rung.from_host(rows[kind], rung.float_dtypes[-1] if kind == "floats" else None)
    arguments = (rung.from_host(rows["bins"], dtype_of_bins), rung.from_host(rows["codes"]), 9, 3)
    nodes = rung.from_host(rows["nodes"])
    with no_sync():
        found = al.tree.class_histogram(*arguments, nodes=nodes, n_nodes=5, weights=weights)
    plain = np.ones(300, dtype=np.int64) if kind is None else rows[kind]
    expected = count_by_loops(rows["bins"], rows["codes"], 9, 3, rows["nodes"], 5, plain)
    if kind == "floats":
        # a device without float64 takes differences of running sums in float32
        atol = 1e-9 if "float64" in rung.float_dtypes else 1e-3
        assert_close(found, expected, dtype=rung.float_dtypes[-1], atol=atol)
    else:
        assert_close(found, expected)


@pytest.mark.parametrize("has_nodes", [False, True])
def test_leading_axes_are_batches(rung, no_sync, has_nodes):
    batches = [make_rows(seed, n=40) for seed in range(6)]

    def stack(name):
        return np.stack([rows[name] for rows in batches]).reshape(2, 3, *batches[0][name].shape)

    nodes = {"nodes": rung.from_host(stack("nodes")), "n_nodes": 5} if has_nodes else {}
    given = (rung.from_host(stack(name)) for name in ("bins", "codes"))
    weights = rung.from_host(stack("integers"))
    with no_sync():
        found = al.tree.class_histogram(*given, 9, 3, weights=weights, **nodes)
    ones = np.zeros(40, dtype=np.int64)
    expected = [
        count_by_loops(
            b["bins"], b["codes"], 9, 3, *((b["nodes"], 5) if has_nodes else (ones, 1)), b["integers"]
        )
        for b in batches
    ]
    assert_close(found, np.stack(expected).reshape(2, 3, *expected[0].shape))


def test_one_node_is_the_default(rung):
    rows = make_rows(1)
    found = al.tree.class_histogram(rung.from_host(rows["bins"]), rung.from_host(rows["codes"]), 9, 3)
    ones = np.ones(300, dtype=np.int64)
    assert_close(found, count_by_loops(rows["bins"], rows["codes"], 9, 3, 0 * ones, 1, ones))


@pytest.mark.parametrize("n", [0, 1, 7, 70_000])
@pytest.mark.parametrize("n_classes", [1, 2, 10])
def test_native_equals_portable(n, n_classes):
    rows = make_rows(n, n=n, d=3, n_bins=255, n_classes=n_classes)
    for weights in (None, rows["integers"], rows["floats"], rows["floats"].astype("float32")):
        arguments = (rows["bins"].astype("uint8"), rows["codes"], 255, n_classes)
        options = {"nodes": rows["nodes"], "n_nodes": 5, "weights": weights}
        found = al.tree.class_histogram(*arguments, **options)
        with portable_only():
            expected = al.tree.class_histogram(*arguments, **options)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_many_cells_few_rows():
    rows = make_rows(3, n=40, n_bins=4096, n_classes=2, n_nodes=50)
    arguments = (rows["bins"].astype("int16"), rows["codes"], 4096, 2)
    found = al.tree.class_histogram(*arguments, nodes=rows["nodes"], n_nodes=50)
    assert found.sum() == 40 * 4
    ones = np.ones(40, dtype=np.int64)
    expected = count_by_loops(rows["bins"], rows["codes"], 4096, 2, rows["nodes"], 50, ones)
    np.testing.assert_array_equal(found, expected)


@given(st.integers(0, 10_000))
def test_rows_in_any_order_and_duplicates_as_weights(seed):
    rows = make_rows(seed, n=50)
    order = np.random.default_rng(seed).permutation(50)
    plain = al.tree.class_histogram(rows["bins"], rows["codes"], 9, 3, weights=rows["integers"])
    shuffled = al.tree.class_histogram(
        rows["bins"][:, order], rows["codes"][order], 9, 3, weights=rows["integers"][order]
    )
    repeated = al.tree.class_histogram(
        np.repeat(rows["bins"], rows["integers"], axis=1), np.repeat(rows["codes"], rows["integers"]), 9, 3
    )
    np.testing.assert_array_equal(plain, shuffled)
    np.testing.assert_array_equal(plain, repeated)


# ---- scores


def test_cart_toy(rung):
    # bins of age 23 30 40 45 55 and of salary 15 40 60 65 75 100; classes G and B
    bins = [[1, 0, 2, 4, 4, 3], [3, 0, 4, 1, 5, 2]]
    codes = [0, 1, 0, 1, 0, 0]
    hist = al.tree.class_histogram(rung.from_host(bins), rung.from_host(codes), 6, 2)
    scores = rung.to_host(al.tree.threshold_scores(hist))[0]
    np.testing.assert_allclose(4 / 9 - scores[0, :4], [0.2667, 0.4167, 0.4444, 0.4167], atol=5e-5)
    np.testing.assert_allclose(4 / 9 - scores[1], [0.2667, 0.0, 0.2222, 0.3333, 0.4], atol=5e-5)
    assert scores[0, 4] == -np.inf  # nobody is left above the last age


def test_best_age_of_the_drug_example(rung):
    ages = np.asarray([20, 73, 37, 33, 48, 29, 52, 42, 61, 30, 26, 54])
    drugs = rung.from_host([0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0])
    hist = al.tree.class_histogram(rung.from_host(np.argsort(np.argsort(ages))[None]), drugs, 12, 2)
    scores = rung.to_host(al.tree.threshold_scores(hist, "entropy"))[0, 0]
    assert scores.argmax() == 9  # between 54 and 61: threshold 57.5
    assert scores[9] == pytest.approx(0.1909, abs=5e-5)
    assert scores[5] == pytest.approx(0.0817, abs=5e-5)  # threshold 39.5


@pytest.mark.parametrize("measure", measures.MEASURES)
def test_every_threshold_by_the_measure_itself(rung, dtype, no_sync, measure):
    hist = np.random.default_rng(0).integers(0, 9, (2, 3, 6, 4)) * (np.arange(6) > 1)[:, None]
    counts = rung.from_host(hist, dtype)
    with no_sync():
        found = al.tree.threshold_scores(counts, measure)
    table = np.stack(
        [np.stack([hist[:, :, : i + 1].sum(2), hist[:, :, i + 1 :].sum(2)], 2) for i in range(5)], 2
    )
    score = measures.MEASURES[measure]
    expected = score(np, table.astype(float))
    expected[..., :2] = -np.inf
    assert_close(found, expected, dtype=dtype, rtol=2e-5, atol=1e-6)
    by_integers = al.tree.threshold_scores(rung.from_host(hist), measure)
    assert_close(by_integers, expected, dtype=rung.float_dtypes[-1], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("measure", ["gini", "entropy", "gain_ratio", "chi2", "error"])
def test_independence_scores_exactly_zero(rung, dtype, measure):
    sizes = np.asarray([3, 7, 1, 11, 6])
    hist = rung.from_host(sizes[:, None] * np.asarray([5, 2, 7]), dtype)
    assert_close(al.tree.threshold_scores(hist, measure), [0.0] * 4, dtype=dtype, rtol=0, atol=0)


def test_float_weights_leave_nothing_behind(rung, dtype):
    # 0.1 + 0.2 + 0.3 - 0.6 is not 0: an empty side must be empty all the same
    hist = rung.from_host([[0.1, 0.7], [0.2, 0.1], [0.3, 0.3], [0.0, 0.0]], dtype)
    scores = rung.to_host(al.tree.threshold_scores(hist, "gain_ratio"))
    assert np.isfinite(scores[:2]).all()
    assert scores[2] == -np.inf


def test_refusals():
    with pytest.raises(ValueError, match=r"`measure` must be one of 'accuracy', .*; got 'gin'"):
        al.tree.threshold_scores([[1, 2], [3, 4]], "gin")
    with pytest.raises(ValueError, match="`hist` must have the axes"):
        al.tree.threshold_scores([[1, 2]])
    with pytest.raises(ValueError, match="`bins` must have the axes"):
        al.tree.class_histogram([0, 1], [0, 1], 2, 2)
    with pytest.raises(ValueError, match=r"`codes` must have one entry per row \(2\); got the shape \(3,\)"):
        al.tree.class_histogram([[0, 1]], [0, 1, 1], 2, 2)
    with pytest.raises(ValueError, match="`n_bins` must be at least 1; got 0"):
        al.tree.class_histogram([[0, 1]], [0, 1], 0, 2)
