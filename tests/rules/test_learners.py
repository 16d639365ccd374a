"""Sequential covering and RIPPER: concepts they must find, weights, missing values, limits, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.backend.dispatch import use_compiled
from arraylearn.rules import parse_rules
from tests.contract.test_contract import BACKEND_NAMES


def concept(n=400, seed=0, noise=0.0):
    """Two rules for class 1 on numbers and categories."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, 4), dtype=object)
    numbers = np.round(rng.normal(size=(n, 2)) * 8) / 8
    X[:, 0], X[:, 1] = numbers.T
    X[:, 2], X[:, 3] = rng.choice(["r", "g", "b"], n), rng.choice(["u", "v"], n)
    y = ((numbers[:, 0] > 0.5) & (X[:, 2] == "r")) | ((numbers[:, 1] <= -1) & (X[:, 3] == "u"))
    return X, (y ^ (rng.random(n) < noise)).astype(int)


# the numbers are eighths: neighbours of the cuts are 0.5 and 0.625, -1 and -0.875
EXPECTED = "x0 > 0.5625 and x2 = r -> 1\nx1 <= -0.9375 and x3 = u -> 1"


@pytest.mark.parametrize("gain", ["accuracy", "foil"])
def test_covering_finds_a_concept(rung, gain):
    X, y = concept()
    clf = al.SequentialCoveringClassifier(gain=gain, backend=BACKEND_NAMES[rung.name]).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), y)
    reference = al.SequentialCoveringClassifier(gain=gain).fit(X, y)
    assert clf.rules_ == reference.rules_
    if gain == "foil":
        assert set(parse_rules(EXPECTED)) <= set(clf.rules_)


def test_ripper_finds_a_concept(rung):
    X, y = concept()
    clf = al.RipperClassifier(random_state=0, backend=BACKEND_NAMES[rung.name]).fit(X, y)
    assert set(clf.rules_) == set(parse_rules(EXPECTED))
    assert clf.default_ == 0
    reference = al.RipperClassifier(random_state=0).fit(X, y)
    assert clf.rules_ == reference.rules_


def test_ripper_under_noise_keeps_few_rules():
    X, y = concept(1000, noise=0.1)
    clf = al.RipperClassifier(random_state=0).fit(X, y)
    assert len(clf.rules_) <= 5
    assert clf.score(*concept(1000, seed=1)) > 0.97


def test_ripper_of_many_classes(rung):
    wine = al.datasets.load_wine()
    clf = al.RipperClassifier(random_state=0, backend=BACKEND_NAMES[rung.name]).fit(wine.X, wine.y)
    labels = [rule.label for rule in clf.rules_]
    order = np.argsort(np.bincount(np.searchsorted(clf.classes_, wine.y)), kind="stable")
    # rarest class first, the most frequent one by default
    assert labels == sorted(labels, key=clf.classes_[order].tolist().index)
    assert clf.default_ == clf.classes_[order[-1]]
    assert clf.score(wine.X, wine.y) > 0.93
    assert clf.rules_ == al.RipperClassifier(random_state=0).fit(wine.X, wine.y).rules_


def test_the_same_seed_gives_the_same_rules():
    X, y = concept(noise=0.2)
    one, other = (al.RipperClassifier(random_state=3).fit(X, y) for _ in range(2))
    assert one.rules_ == other.rules_
    assert one.to_text() == other.to_text()


@pytest.mark.parametrize("learner", [al.RipperClassifier(random_state=0), al.SequentialCoveringClassifier()])
def test_missing_values_never_match(learner):
    X, y = concept()
    X[::5, 0] = None
    X[1::5, 2] = None
    learner.fit(X, y)
    rows = np.array([[None, None, None, None]], dtype=object)
    assert learner.fired_rules(rows)[0].fired == ()
    assert learner.predict(rows)[0] == learner.default_
    nothing = np.array([[9.0, -9.0, "never seen", "never seen"]], dtype=object)
    assert all(
        literal.relation in ("<=", ">")
        for i in learner.fired_rules(nothing)[0].fired
        for literal in learner.rules_[i].literals
    )


RULE_LEARNERS = pytest.mark.parametrize(
    "make",
    [
        lambda: al.RipperClassifier(random_state=0),
        al.SequentialCoveringClassifier,
        lambda: al.SequentialCoveringClassifier(gain="foil"),
    ],
    ids=["ripper", "accuracy", "foil"],
)


def described(clf, X, factor=1.0):
    """All that a fit found, with coverage in weights that are `factor` times as large."""
    return clf.rules_, clf.default_, (clf.coverage_ * factor).tolist(), clf.predict_proba(X).tolist()


def test_weights_shift_a_rule():
    """Four rows above the cut at 2.5, three of them positive; the heavy negative one moves it."""
    X, y = np.array([[1.0], [2], [3], [4], [5], [6]]), np.array([0, 0, 1, 0, 1, 1])
    make = al.SequentialCoveringClassifier(gain="foil", max_rules=1, max_literals=1)
    # p log2(p/n) - p log2(1/2): x > 2.5 gains 3 (log2 3/4 + 1) = 1.75, x > 4.5 gains 2
    assert str(make.fit(X, y).rules_[1]) == "x0 > 4.5 -> 1"
    # of 5.25 rows in all 3 are positive, 3 of 3.25 beyond 2.5: 2.08 bits beside 2 * 0.81 = 1.61
    weights = [1, 1, 1, 0.25, 1, 1]
    assert str(make.fit(X, y, sample_weight=weights).rules_[1]) == "x0 > 2.5 -> 1"
    assert make.coverage_.tolist()[1] == 3.25


@RULE_LEARNERS
def test_a_common_factor_of_weights_changes_nothing(make, rung):
    X, y = concept(120, noise=0.1)
    name = BACKEND_NAMES[rung.name]
    rng = np.random.default_rng(0)
    for weights in (rng.integers(1, 5, 120).astype(float), rng.random(120)):
        clf = make().set_params(backend=name).fit(X, y, sample_weight=weights)
        assert len(clf.rules_) > 1
        for factor in (8.0, 2.0**-40):  # to the bit
            other = make().set_params(backend=name).fit(X, y, sample_weight=weights * factor)
            assert described(other, X) == described(clf, X, factor)
        other = make().fit(X, y, sample_weight=weights / weights.sum())
        assert other.rules_ == clf.rules_
    uniform = make().fit(X, y, sample_weight=np.full(120, 1 / 120))
    assert uniform.rules_ == make().fit(X, y).rules_


@RULE_LEARNERS
def test_a_row_of_weight_zero_is_not_there(make):
    """Its numbers, its category, its class and its turn to be held back are gone."""
    X, y = concept(90, noise=0.1)
    weights = np.random.default_rng(1).integers(0, 3, 90).astype(float)
    X[weights == 0, 2] = [f"only {i}" for i in range(int((weights == 0).sum()))]
    y[np.argmin(weights)] = 7
    kept = weights > 0
    clf = make().fit(X, y, sample_weight=weights)
    other = make().fit(X[kept], y[kept], sample_weight=weights[kept])
    assert clf.predict_proba(X)[:, 2].tolist() == [0.0] * 90
    assert described(clf, X)[:3] == described(other, X)[:3]
    assert clf.predict_proba(X)[:, :2].tolist() == other.predict_proba(X).tolist()


def test_coverage_counts_rows_whatever_they_weigh():
    X, y = np.array([[1.0], [2], [3], [4], [5], [6]]), np.array([1, 0, 0, 0, 1, 1])
    heavy_one = [50.0, 1, 1, 1, 1, 1]
    for weights in (None, heavy_one, np.array(heavy_one) / 55):
        clf = al.SequentialCoveringClassifier(min_coverage=2).fit(X, y, sample_weight=weights)
        assert [str(rule) for rule in clf.rules_] == ["x0 > 1.5 and x0 <= 4.5 -> 0", "x0 > 4.5 -> 1"]
        single = al.SequentialCoveringClassifier().fit(X, y, sample_weight=weights)
        assert "x0 <= 1.5 -> 1" in map(str, single.rules_)


def test_single_precision_finds_the_same_rules():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5)).astype(np.float32)
    y = ((X[:, 0] > 0.3) & (X[:, 1] < 0.2)).astype(int)
    single = al.RipperClassifier(random_state=0).fit(X, y)
    double = al.RipperClassifier(random_state=0).fit(X.astype(np.float64), y)
    assert single.rules_ == double.rules_
    np.testing.assert_array_equal(single.predict(X), double.predict(X.astype(np.float64)))


def test_neighbouring_floats_are_separated():
    low = np.float32(0.1)
    high = np.nextafter(low, np.float32(1))
    X = np.array([[low]] * 5 + [[high]] * 5)
    y = [0] * 5 + [1] * 5
    for dtype in (np.float32, np.float64):
        clf = al.SequentialCoveringClassifier().fit(X.astype(dtype), y)
        np.testing.assert_array_equal(clf.predict(X.astype(dtype)), y)


def test_an_unpruned_row_lies_between_the_rows_that_grew_a_rule(rung):
    """Twelve rows whose threshold fell on the other side of the held-back 5 in another unit."""
    x, y = np.array([8.0, 5, 7, 3, 1, 7, 1, 1, 7, 7, 10, 5]), [1, 1, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0]
    found = []
    for unit in (1, 8):
        X = rung.from_host(unit * x[:, None], rung.float_dtypes[-1])
        (rule,) = al.RipperClassifier(random_state=0).fit(X, y).rules_
        (literal,) = rule.literals
        found.append((literal.relation, literal.value / unit, rule.label))
    assert found[0] == found[1]
    # halfway between two neighbours among all rows
    assert found[0][1] in (2, 4, 6, 7.5, 9)


@RULE_LEARNERS
@pytest.mark.parametrize("unit", [8, 0.1, 2.54, 1000])
def test_rules_do_not_depend_on_the_unit_of_a_column(make, unit):
    rng = np.random.default_rng(3)
    for _ in range(30):
        n = int(rng.integers(12, 60))
        X = rng.integers(0, 12, (n, 2)).astype(float)
        y = ((X[:, 0] > 5) & (X[:, 1] < 8)) ^ (rng.random(n) < 0.2)
        here, there = (make().fit(factor * X, y.astype(int)) for factor in (1, unit))
        described = [
            [(rule.label, [(one.column, one.relation) for one in rule.literals]) for rule in clf.rules_]
            for clf in (here, there)
        ]
        assert described[0] == described[1]
        cuts = [[one.value for rule in clf.rules_ for one in rule.literals] for clf in (here, there)]
        assert np.multiply(cuts[0], unit) == pytest.approx(cuts[1], rel=1e-6)
        assert here.predict(X).tolist() == there.predict(unit * X).tolist()


@RULE_LEARNERS
def test_thresholds_are_halfway_between_neighbours_of_all_rows(make):
    iris = al.datasets.load_iris()
    clf = make().fit(iris.X, iris.y)
    literals = [one for rule in clf.rules_ for one in rule.literals]
    assert literals
    for one in literals:
        values = np.unique(iris.X[:, clf.schema_.names.index(one.column)])
        at = np.searchsorted(values, one.value, side="right")
        assert one.value == pytest.approx((values[at - 1] + values[at]) / 2, rel=1e-12)
        assert len(str(one.value)) <= 4  # the data have one digit, the middles two


def test_limits():
    X, y = concept(noise=0.1)
    short = al.SequentialCoveringClassifier(max_literals=1, max_rules=2, min_accuracy=0.0).fit(X, y)
    assert max(map(len, short.rules_)) == 1
    assert max(sum(rule.label == label for rule in short.rules_) for label in (0, 1)) <= 2
    wide = al.SequentialCoveringClassifier(min_coverage=20).fit(X, y)
    right = np.array(wide.coverage_) * np.array(wide.accuracy_)
    assert right[0] >= 20


@pytest.mark.parametrize("gain", ["accuracy", "foil"])
def test_an_identifier_costs_nothing(gain):
    """Nor does a column of n / 2 random names; free, both would cost up to 30 points by accuracy."""
    (X, y), (new, truth) = concept(300, noise=0.1), concept(1000, seed=1)
    rng = np.random.default_rng(0)
    clf = al.SequentialCoveringClassifier(gain=gain)
    expected = clf.fit(X, y).score(new, truth)
    for names, unseen in (
        (np.arange(300), -np.arange(1000)),
        (rng.integers(0, 150, (300)), rng.integers(0, 150, 1000)),
    ):
        with_names = [np.column_stack([part, one.astype(str)]) for part, one in ((X, names), (new, unseen))]
        assert clf.fit(with_names[0], y).score(with_names[1], truth) > expected - 0.02


def test_limits_of_ripper():
    X, y = concept(noise=0.1)
    y = y + (X[:, 0] > np.median(X[:, 0])) * (np.arange(len(y)) % 2)
    free = al.RipperClassifier(random_state=0).fit(X, y)
    assert max(map(len, free.rules_)) > 1
    assert len(free.rules_) > 2
    for rounds in (0, 2):
        short = al.RipperClassifier(rounds=rounds, max_literals=1, random_state=0).fit(X, y)
        assert set(map(len, short.rules_)) == {1}
        few = al.RipperClassifier(rounds=rounds, max_rules=1, random_state=0).fit(X, y)
        labels = [rule.label for rule in few.rules_]
        assert len(labels) == len(set(labels)) < len(free.rules_)


@pytest.mark.parametrize(
    "learner",
    [al.RipperClassifier(random_state=0), al.SequentialCoveringClassifier(), al.RuleSetClassifier()],
    ids=repr,
)
def test_progress(capsys, learner):
    X, y = concept(60)
    learner.set_params(verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert f"{len(learner.rules_)}/?" in shown
    assert "rules" in shown


def test_no_rule_learned():
    X = np.ones((10, 2))
    y = np.array([0] * 4 + [1] * 6)
    for learner in (al.RipperClassifier(), al.SequentialCoveringClassifier()):
        learner.fit(X, y)
        assert learner.rules_ == ()
        assert learner.predict(X).tolist() == [1] * 10
        assert learner.to_text() == "otherwise -> 1"
        assert learner.fired_rules(X[:1]) == [(1, None, ())]
        np.testing.assert_allclose(learner.predict_proba(X[:1]), [[5 / 12, 7 / 12]], rtol=1e-5)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (al.SequentialCoveringClassifier(gain="gini"), "`gain` must be 'accuracy' or 'foil'; got 'gini'"),
        (
            al.SequentialCoveringClassifier(conflict="last"),
            "`conflict` must be 'first', 'strictest' or 'vote'",
        ),
        (al.SequentialCoveringClassifier(max_rules=0), "`max_rules` must be an integer of at least 1, or"),
        (
            al.SequentialCoveringClassifier(min_accuracy=-1),
            "`min_accuracy` must be a finite number of at least 0",
        ),
        (al.RipperClassifier(rounds=1.5), "`rounds` must be an integer of at least 0; got 1.5"),
        (al.RipperClassifier(folds=1), "`folds` must be an integer of at least 2; got 1"),
        (al.RipperClassifier(max_rules=0), "`max_rules` must be an integer of at least 1, or None; got 0"),
        (
            al.RipperClassifier(max_literals=0),
            "`max_literals` must be an integer of at least 1, or None; got 0",
        ),
        (al.RipperClassifier(smoothing="no"), "`smoothing` must be a finite number of at least 0; got 'no'"),
    ],
)
def test_bad_parameters(learner, message):
    with pytest.raises(ValueError, match="must be") as caught:
        learner.fit(*concept(20))
    assert message in str(caught.value)


@pytest.mark.rungs("syncs")
def test_syncs_follow_literals_not_rows(rung):
    syncs = []
    for n in (64, 128):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 6))
        y = (X[:, 0] > 0).astype(int)
        before = rung.counts()["syncs"]
        al.SequentialCoveringClassifier().fit(rung.from_host(X), y)
        syncs.append(rung.counts()["syncs"] - before)
    assert syncs[0] == syncs[1] <= 30


@pytest.mark.parametrize(
    ("learner", "n_classes", "mode", "told"),
    [
        # 2 classes of 50,000 rules for 1,000,000 values, at 3 ns each
        (al.SequentialCoveringClassifier(min_coverage=1), 2, "always", "about 5 minutes"),
        (al.SequentialCoveringClassifier(min_coverage=1), 2, "never", "about 50 minutes"),
        (al.SequentialCoveringClassifier(min_coverage=1, max_rules=1000), 2, "always", None),
        (al.SequentialCoveringClassifier(), 2, "always", None),
        # 239 classes of 1,000,000 values, at 1 us each
        (al.RipperClassifier(), 240, "always", "about 4 minutes"),
        (al.RipperClassifier(), 2, "always", None),
    ],
)
def test_cost_is_told_before_it_begins(monkeypatch, learner, n_classes, mode, told):
    if mode == "always":
        pytest.importorskip("numba")
    monkeypatch.setattr(type(learner), "_learn", lambda *given: ([], 0))
    X, y = np.zeros((100_000, 10), dtype=np.float32), np.arange(100_000) % n_classes
    with use_compiled(mode):
        if told is None:
            learner.fit(X, y)  # a warning would be an error
            return
        with pytest.warns(al.LongRunWarning, match=f"{told} .* A sample of the rows, or a tree"):
            learner.fit(X, y)
