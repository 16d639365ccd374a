"""Every declared case runs, on every backend, with every peer that is installed; small tables here."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from arraylearn.backend.namespace import HOST, Place
from arraylearn.bench import data
from arraylearn.bench.bars import BARS
from arraylearn.bench.case import SIZES, Shape
from arraylearn.bench.cases import FAMILIES, all_cases
from arraylearn.bench.machine import threads
from arraylearn.bench.peers import PEERS, installed_peers, missing_peers

CASES = all_cases()


def tiny(case, n=80):
    """The same case on few rows."""
    shape = case.shapes["small"]
    if case.family == "bayes":  # a covariance of fewer rows than columns is singular
        n = max(n, 3 * shape.n_columns * shape.n_classes)
    return replace(case, shapes=dict.fromkeys(SIZES, shape._replace(n_rows=n)))


def test_the_registry_is_complete():
    assert [family for family in FAMILIES if not any(case.family == family for case in CASES)] == []
    names = [(case.family, case.name) for case in CASES]
    assert len(set(names)) == len(names)
    for case in CASES:
        assert set(case.shapes) == set(SIZES)
        rows = [case.shapes[size].n_rows * case.shapes[size].n_columns for size in SIZES]
        assert rows == sorted(rows)
        assert set(case.peers) <= set(PEERS)
        for size in SIZES:
            bar = case.bar_of(size)
            assert bar is None or any(set(one.peers) <= set(case.peers) for one in BARS[bar].against)
    used = {case.bar_of(size) for case in CASES for size in SIZES}
    assert set(BARS) <= used, "a bar without a case"


def test_unknown_families_are_refused():
    with pytest.raises(ValueError, match="`family` must be one of bayes, tree"):
        all_cases(("bayes", "forests"))


def test_missing_peers_are_named(monkeypatch):
    found = {name: peer._replace(module="no_such_module_here") for name, peer in PEERS.items()}
    monkeypatch.setattr("arraylearn.bench.peers.PEERS", {**PEERS, "xgboost": found["xgboost"]})
    assert "xgboost" not in installed_peers()
    assert missing_peers()["xgboost"] == "pip install xgboost"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}-{case.name}".replace(" ", "_"))
def test_ours_and_the_peers_run(case):
    small = tiny(case)
    here = installed_peers()
    with threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        contest = small.prepare(small.shapes["small"], 1)
        results = {"ours": contest.ours(HOST)()}
        results |= {name: make()() for name, make in contest.peers.items() if name in here}
        if contest.judge is None:
            return
        quality = {name: contest.judge(result) for name, result in results.items()}
    assert np.isfinite(quality["ours"])
    if case.quality == "dual objective":  # of one problem: the same for all who solve it
        assert quality["libsvm"] == pytest.approx(quality["ours"], rel=1e-3)
    assert small.n_rows(small.shapes["small"]) >= 80


SHOWN = [case for case in CASES if case.family in ("bayes", "kernels", "tree")]


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: f"{case.family}-{case.name}".replace(" ", "_"))
@pytest.mark.rungs("library")
def test_on_the_rung(rung, xp, case):
    small = tiny(case, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        run = small.prepare(small.shapes["small"], 1).ours(Place(xp, rung.device))
        assert run() is not None


def test_generated_rows_are_the_same_every_time():
    shape = Shape(50, 12, 3)
    for make in (
        data.curved,
        data.normal,
        data.nominal_rows,
        data.noise,
        data.interval_rules,
        data.nominal_rules,
        data.machine_rows,
    ):
        one, other = make(shape), make(shape)
        assert one.X.shape == (50, 12)
        assert one.X_new.shape[0] == one.y_new.shape[0] >= 1000
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(np.unique(data.curved(Shape(500, 12, 3), n_values=6).X)) <= 8
