"""What a GPU would feel, learner by learner: syncs and launches, against the bars.

The bars: at most 2 syncs per level of a tree, 1 of a boosted one and 1 for its root, 3 per outer step of a
support vector machine, 1 per prediction, 2 per fit of a Bayes classifier; launches per level that do not
depend on the number of nodes, columns and classes. ``--rungs strict`` counts syncs; the emulated devices,
``--rungs fake_cuda`` and ``--rungs cupy``, count launches as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import arraylearn as al

pytestmark = pytest.mark.rungs("syncs")
counts_launches = pytest.mark.rungs("launches")

PREDICTIONS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "apply")
# a sum over more elements may take a second pass: launches that do not grow may still differ by this share
SAME_LAUNCHES = 0.06


@dataclass(frozen=True)
class Subject:
    """A learner, and by how much its counts may miss the bars for now.

    `short` names what falls short and why; each becomes a strict expected failure, so that an improvement is
    noticed and the entry goes.
    """

    make: Callable[..., Any]
    short: Mapping[str, str] = field(default_factory=dict)
    rows: int = 1200  # so many that every level works in the same way


def subject(kind: Callable[..., Any], /, short: Mapping[str, str] | None = None, **settings: Any) -> Subject:
    """Describe a learner with settings of its own."""
    return Subject(lambda **others: kind(**{**settings, **others}), short or {})


BAYES = {
    "naive": subject(al.NaiveBayesClassifier),
    "full": subject(al.FullBayesClassifier),
    "full shared": subject(al.FullBayesClassifier, covariance="shared"),
    "full diagonal": subject(al.FullBayesClassifier, covariance="diagonal"),
    "full shrunk": subject(al.FullBayesClassifier, shrinkage="auto"),
}
FEW_BINS = 8  # so few that 1200 rows stay with histograms for the levels looked at
TREES = {
    "exact": subject(al.DecisionTreeClassifier, splitter="exact"),
    "entropy": subject(al.DecisionTreeClassifier, splitter="exact", criterion="entropy"),
    "binned": subject(al.DecisionTreeClassifier, splitter="hist", max_bins=FEW_BINS),
    "direction": subject(al.DecisionTreeClassifier, missing="direction"),
    "clouds": subject(al.DecisionTreeClassifier, splitter="clouds", max_bins=FEW_BINS),
    "clouds by samples": subject(al.DecisionTreeClassifier, splitter="clouds_sampling", max_bins=FEW_BINS),
    "forest": subject(al.RandomForestClassifier, n_estimators=4, random_state=0),
}
BOOSTED = {
    "boosting": subject(al.GradientBoostingClassifier, n_estimators=3, max_depth=3, min_samples_leaf=2),
    "boosting best first": subject(
        al.GradientBoostingClassifier, n_estimators=3, max_depth=3, max_leaf_nodes=6, min_samples_leaf=2
    ),
}
MACHINES = {
    "decomposition": subject(al.SVC, solver="decomposition", C=5.0),
    "dense": subject(al.SVC, solver="dense", C=5.0),
    "newton": subject(al.SVC, solver="newton", kernel="linear"),
    "one class": subject(al.OneClassSVM),
    "svdd": subject(al.SVDD),
}
OTHERS = {
    "adaboost": subject(al.AdaBoostClassifier, n_estimators=3, random_state=0),
    "covering": subject(al.SequentialCoveringClassifier),
    "ripper": subject(al.RipperClassifier, random_state=0),
    "rules by vote": subject(al.SequentialCoveringClassifier, gain="foil", conflict="vote"),
    "svc ovo": subject(al.SVC),
    "svc ova": subject(al.SVC, multiclass="ovr", kernel="poly"),
}
EVERY = {**BAYES, **TREES, **BOOSTED, **MACHINES, **OTHERS}


def over(subjects: Mapping[str, Subject], claim: str) -> Any:
    """Parametrize a test over learners; those that fall short of the claim are expected to fail, strictly."""
    return pytest.mark.parametrize(
        "learner",
        [
            pytest.param(
                each,
                id=name,
                marks=pytest.mark.xfail(reason=each.short[claim], strict=True) if claim in each.short else (),
            )
            for name, each in subjects.items()
        ],
    )


@pytest.fixture
def count(rung):
    """``count(work)``: the syncs and launches of a call."""

    def counted(work):
        before = rung.counts()
        work()
        after = rung.counts()
        return {name: after[name] - before[name] for name in before}

    return counted


def rows_on(rung, n=200, d=3, k=2):
    """Rows on the device whose classes every learner needs several steps for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(np.float32)
    y = (X @ rng.standard_normal((d, k)) + rng.standard_normal((n, k))).argmax(axis=1)
    return rung.from_host(X), rung.from_host(y)


# ---- predictions


@over(EVERY, "predict")
def test_a_prediction_syncs_once(rung, count, learner):
    x, y = rows_on(rung, n=60)
    model = learner.make()
    model.fit(x, y)
    queries, _ = rows_on(rung, n=40)
    offered = [name for name in PREDICTIONS if hasattr(model, name)]
    for name in offered:
        getattr(model, name)(queries)  # what is prepared once per model does not count
        assert count(lambda name=name: getattr(model, name)(queries))["syncs"] <= 1, name
    assert "predict" in offered


# ---- fits


@over(BAYES, "fit")
def test_a_bayes_classifier_syncs_twice_to_fit(rung, count, learner):
    launches = []
    for n, d, k in ((200, 3, 2), (600, 3, 2), (200, 12, 2), (200, 3, 6)):
        x, y = rows_on(rung, n, d, k)
        model = learner.make().fit(x, y)
        counts = count(lambda model=model, x=x, y=y: model.fit(x, y))
        assert counts["syncs"] <= 2
        launches.append(counts.get("launches", 0))
    assert max(launches) <= min(launches) + 2 * 6  # the factors of CuPy's classes, one by one


def per_level(count, learner, x, y, depths=(2, 6)):
    """Syncs and launches of a fit, divided by the levels between two depths."""
    few, many = (count(lambda depth=depth: learner.make(max_depth=depth).fit(x, y)) for depth in depths)
    return {name: (many[name] - few[name]) / (depths[1] - depths[0]) for name in many}


@over(TREES, "levels")
@pytest.mark.parametrize("shape", [(1200, 3, 2), (300, 12, 2), (1200, 3, 6)], ids=str)
def test_a_level_of_a_tree_syncs_twice(rung, count, learner, shape):
    assert per_level(count, learner, *rows_on(rung, *shape))["syncs"] <= 2


def assert_same_launches(found, reference):
    assert found == pytest.approx(reference, rel=SAME_LAUNCHES)


@counts_launches
@over(TREES, "launches by nodes")
def test_launches_per_level_do_not_depend_on_the_nodes(rung, count, learner):
    x, y = rows_on(rung, learner.rows)
    upper, lower = (per_level(count, learner, x, y, depths)["launches"] for depths in ((1, 3), (3, 5)))
    assert_same_launches(lower, upper)  # eight times as many nodes


@counts_launches
@over(TREES, "launches by columns")
def test_launches_per_level_do_not_depend_on_the_columns(rung, count, learner):
    few, many = (
        per_level(count, learner, *rows_on(rung, learner.rows, d), (1, 3))["launches"] for d in (3, 15)
    )
    assert_same_launches(many, few)


@counts_launches
@over(TREES, "launches by classes")
def test_launches_per_level_do_not_depend_on_the_classes(rung, count, learner):
    three, few, many = (
        per_level(count, learner, *rows_on(rung, learner.rows, 3, k), (1, 3))["launches"] for k in (3, 6, 12)
    )
    assert_same_launches(many, few)
    assert three <= few * (1 + SAME_LAUNCHES)  # up to four classes have a formula of their own


@over(BOOSTED, "boosting")
@pytest.mark.parametrize("k", [2, 3])
def test_a_boosted_tree_syncs_once_per_level(rung, count, learner, k):
    depth, rounds = 3, (1, 3)
    found = {}
    for d in (3, 12):
        x, y = rows_on(rung, 300, d, k)
        few, many = (count(lambda n=n, x=x, y=y: learner.make(n_estimators=n).fit(x, y)) for n in rounds)
        n_trees = (rounds[1] - rounds[0]) * (1 if k == 2 else k)
        assert (many["syncs"] - few["syncs"]) / n_trees <= depth + 1
        found[d] = many.get("launches", 0) - few.get("launches", 0)
    assert_same_launches(found[12], found[3])


@over(MACHINES, "outer steps")
def test_an_outer_step_of_a_machine_syncs_thrice(rung, count, learner):
    x, y = rows_on(rung, 500, 4)
    totals: list[int] = []

    def note(n_steps, gap):
        totals.append(rung.counts()["syncs"])

    learner.make(verbose=note, tol=1e-4).fit(x, y)
    assert len(totals) >= 3, "too few steps to show anything"
    assert max(np.diff(totals)) <= 3
