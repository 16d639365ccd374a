"""Every declared case runs, on every backend, with every peer that is installed; small tables here."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from arraylearn.backend.namespace import HOST, Place, to_host
from arraylearn.bench import data
from arraylearn.bench.bars import BARS
from arraylearn.bench.case import SIZES
from arraylearn.bench.cases import FAMILIES, all_cases
from arraylearn.bench.conditions import threads
from arraylearn.bench.data import Shape
from arraylearn.bench.peers import PEERS, installed_peers, missing_peers

CASES = all_cases()
# what stands for a peer that is not run: a time that was set or recorded
RECORDED = {"J48", "JRip", "3 s", "5 s", "150 us"}


def tiny(case, n=80):
    """The same case on few rows."""
    shape = next(iter(case.shapes.values()))
    if case.family == "bayes":  # a covariance of fewer rows than columns is singular
        n = max(n, 3 * shape.n_columns * shape.n_classes)
    if case.family == "small_sets" or shape.n_classes > 10:  # a class needs rows of both parts
        n = shape.n_rows
    return replace(case, shapes=dict.fromkeys(SIZES, shape._replace(n_rows=n)))


def test_the_registry_is_complete():
    assert [family for family in FAMILIES if not any(case.family == family for case in CASES)] == []
    names = [(case.family, case.name) for case in CASES]
    assert len(set(names)) == len(names)
    for case in CASES:
        assert set(case.shapes) <= set(SIZES)
        rows = [shape.n_rows * shape.n_columns for shape in case.shapes.values()]
        assert rows == sorted(rows)
        assert set(case.peers) <= set(PEERS)
    for key, bar in BARS.items():
        cases = [case for case in CASES if key in case.bars and set(bar.sizes) & set(case.shapes)]
        assert cases, f"{key}: a bar without a case"
        for against in bar.against:
            judged = {peer for case in cases for peer in case.peers} | RECORDED
            assert judged & set(against.peers), f"{key}: no case has {against.peers}"


def test_unknown_families_are_refused():
    with pytest.raises(ValueError, match="`family` must be one of bayes, tree"):
        all_cases(("bayes", "forests"))


def test_missing_peers_are_named(monkeypatch):
    found = {name: peer._replace(module="no_such_module_here") for name, peer in PEERS.items()}
    monkeypatch.setitem(PEERS, "xgboost", found["xgboost"])
    assert "xgboost" not in installed_peers()
    assert missing_peers()["xgboost"] == "pip install xgboost"


def is_tried(case):
    """Learners repeat over the small sets, and first fits take seconds: some show that all run."""
    if case.family == "small_sets":
        return "wine" in case.name or "one row" in case.name
    return case.family != "first_fit" or "SVC" in case.name


TRIED = list(filter(is_tried, CASES))


@pytest.mark.parametrize("case", TRIED, ids=lambda case: f"{case.family}-{case.name}".replace(" ", "_"))
def test_ours_and_the_peers_run(case):
    small = tiny(case)
    here = installed_peers()
    with threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        race = small.prepare(small.shapes["small"], 1)
        results = {"ours": race.ours(HOST)()}
        results |= {name: make()() for name, make in race.peers.items() if name in here}
        if race.judge is None:
            assert_right_arrays(case, results)
            return
        quality = {name: race.judge(result) for name, result in results.items()}
    if case.quality in ("dual objective", "risk of the root"):  # of one problem: the same for every solver
        peer = "libsvm" if case.quality == "dual objective" else "scikit-learn"
        assert quality[peer] == pytest.approx(quality["ours"], rel=1e-3)
    elif "one row" in case.bars:
        return
    elif case.family == "bayes" or "one-class" in case.name:  # the same model
        (peer,) = quality.keys() - {"ours"}
        assert quality[peer] == pytest.approx(quality["ours"], abs=0.01)
    else:
        chance = 1 / small.shapes["small"].n_classes
        assert quality["ours"] > 1.05 * chance
        assert all(abs(other - quality["ours"]) < 0.15 for other in quality.values() if not np.isnan(other))
    assert small.n_rows(small.shapes["small"]) >= 80


def assert_right_arrays(case, results):
    """The kernels, whose cases are not judged: values that are known without the kernel."""
    ours = results["ours"]
    if case.family == "first_fit":
        assert ours.returncode == 0
    elif "gaussian gram" in case.name:
        assert ours.shape == results["matmul"].shape
        np.testing.assert_allclose(np.diagonal(ours), 1.0, rtol=1e-5)
    elif "histogram" in case.name:
        counts = np.asarray(results["bincount"]).reshape(20, 2, 255)  # columns, classes, bins
        np.testing.assert_array_equal(ours[0], counts.transpose(0, 2, 1))
    else:
        assert ours.shape == (80, 5)
        assert np.isfinite(ours).all()


SHOWN = [case for case in CASES if case.family in ("bayes", "kernels", "tree")]


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: f"{case.family}-{case.name}".replace(" ", "_"))
@pytest.mark.rungs("library")
def test_on_the_rung(rung, xp, case):
    small = tiny(case, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        race = small.prepare(small.shapes["small"], 1)
        found, expected = race.ours(Place(xp, rung.device))(), race.ours(HOST)()
        if race.judge is None:
            tolerance = 1e-4 if "float32" in case.name else 1e-9
            np.testing.assert_allclose(to_host(found), expected, rtol=tolerance, atol=tolerance)
        else:  # accuracy: trees are the same to the bit, Gaussians up to rounding
            assert race.judge(found) == pytest.approx(race.judge(expected), abs=2e-3)


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
