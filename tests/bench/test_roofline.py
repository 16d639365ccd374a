"""The model of a card by hand, and counts that agree with the device's own."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from arraylearn.backend.costs import OperationCounts
from arraylearn.bench.data import Shape
from benchmarks import roofline


def test_estimate_by_hand():
    card = roofline.Card(bandwidth=1e12, peak32=2e12, peak64=1e12, launch=5e-6, sync=2e-5)
    found = roofline.estimate(OperationCounts(launches=100, syncs=2, n_bytes=10**9, n_flops=10**8), card)
    assert found == pytest.approx((5e-4, 4e-5, 1e-3, 1e-4))
    assert found.total == pytest.approx(1.64e-3)
    assert found.bottleneck == "bandwidth"
    assert roofline.estimate(OperationCounts(launches=1), card).bottleneck == "launches"
    single = roofline.estimate(OperationCounts(n_flops=10**8), card, double=False)
    assert single.arithmetic == pytest.approx(5e-5)


@pytest.mark.rungs("fake_cuda", "cupy")
def test_counts_are_the_devices_own(rung, xp):
    x = rung.from_host(np.ones((1000, 10)))
    with roofline.count(rung) as counts:
        total = xp.sum(x * 2.0)
        float(total)
    assert counts.syncs == 1
    assert counts.launches >= 2
    assert counts.n_bytes >= 2 * x.size * 8 if rung.name == "cupy" else counts.n_bytes >= 3 * 8 * 10_000
    if rung.name == "fake_cuda":
        assert counts.n_flops >= 20_000  # a product and an addition per element


@pytest.mark.rungs("fake_cuda", "cupy")
def test_rows_of_the_table(rung):
    rows = list(roofline.measure(rung, ["naive Bayes"], Shape(300, 5, 3)))
    assert [row.job for row in rows] == ["fit", "predict"]
    assert rows[0].counts.syncs <= 2
    assert rows[1].counts.syncs <= 1
    line = roofline.table_rows(rows)[0]
    assert len(line) == len(roofline.HEADINGS)
    assert line[-1].endswith("(launches)")


def test_arithmetic_is_counted_once():
    rows = [
        roofline.Row("torch", "t", "fit", 100, OperationCounts(n_flops=500)),
        roofline.Row("cupy", "t", "fit", 20, OperationCounts()),
    ]
    assert roofline.with_arithmetic(rows)[1].counts.n_flops == 100


def test_counts_are_kept_and_shown_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    rows = [roofline.Row("torch", "naive Bayes", "fit", 100, OperationCounts(10, 2, 3_000_000, 500))]
    kept = tmp_path / "counts.json"
    kept.write_text(json.dumps([asdict(row) for row in rows]))
    assert roofline.read_rows(kept) == rows
    assert roofline.main(["--read", str(kept)]) == 0
    told = capsys.readouterr().out
    assert "ESTIMATE" in told
    assert "naive Bayes" in told
