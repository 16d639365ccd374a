"""Worked examples 3 (tennis, as rules), 11 (loans) and 12 (people), on every rung."""

from __future__ import annotations

import numpy as np
import pytest

import arraylearn as al
from arraylearn.rules import measure_rules, parse_rules, rules_from_tree
from arraylearn.rules.find_literal import accuracy_gain, foil_gain
from tests.backends.assertions import assert_close
from tests.contract.test_contract import BACKEND_NAMES

PEOPLE = """
hair = Red -> C1
hair = Blonde and eyes = Blue -> C1
eyes = Brown -> C2
hair = Dark -> C2
"""
FROM_TREE = """
hair = Red -> C1
hair = Blonde and eyes = Blue -> C1
hair = Blonde and eyes = Brown -> C2
hair = Dark -> C2
"""


def frame_of(dataset):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            name: dataset.X[:, j] if j in dataset.categorical_features else dataset.X[:, j].astype(float)
            for j, name in enumerate(dataset.feature_names)
        }
    )


def test_loans_coverage_and_accuracy(rung):
    loans = al.datasets.load_loans()
    rules = ["marital_status = Single -> No", "taxable_income > 80 -> Yes", "refund = Yes -> No"]
    found = measure_rules(rules, frame_of(loans), loans.y, backend=BACKEND_NAMES[rung.name])
    assert found[0].coverage == pytest.approx(0.4)
    assert found[0].accuracy == pytest.approx(0.5)
    assert (found[1].weight, found[1].accuracy) == (7.0, pytest.approx(3 / 7))
    assert (found[2].weight, found[2].accuracy) == (3.0, 1.0)


def test_people_by_covering(rung):
    people = al.datasets.load_people()
    clf = al.SequentialCoveringClassifier(backend=BACKEND_NAMES[rung.name])
    clf.fit(frame_of(people), people.y)
    assert clf.rules_ == parse_rules(PEOPLE)
    assert clf.coverage_.tolist() == [1.0, 2.0, 3.0, 2.0]
    assert clf.accuracy_.tolist() == [1.0] * 4
    np.testing.assert_array_equal(clf.predict(frame_of(people)), people.y)


def test_people_from_the_tree(rung):
    people = al.datasets.load_people()
    tree = al.id3(backend=BACKEND_NAMES[rung.name]).fit(frame_of(people), people.y)
    assert set(rules_from_tree(tree)) == set(parse_rules(FROM_TREE))
    clf = al.RuleSetClassifier(al.id3(), post_prune=False, backend=BACKEND_NAMES[rung.name])
    clf.fit(frame_of(people), people.y)
    assert set(clf.rules_) == set(parse_rules(FROM_TREE))
    pruned = al.RuleSetClassifier(al.id3(), backend=BACKEND_NAMES[rung.name])
    pruned.fit(frame_of(people), people.y)
    # "hair = Blonde" is not needed beside "eyes = Brown"
    assert parse_rules("eyes = Brown -> C2")[0] in pruned.rules_
    np.testing.assert_array_equal(pruned.predict(frame_of(people)), people.y)


def test_tennis_from_the_tree(rung):
    tennis = al.datasets.load_tennis()
    tree = al.id3(backend=BACKEND_NAMES[rung.name]).fit(frame_of(tennis), tennis.y)
    yes = (
        "outlook = sunny and humidity = normal -> yes",
        "outlook = overcast -> yes",
        "outlook = rain and wind = weak -> yes",
    )
    assert {rule for rule in rules_from_tree(tree) if rule.label == "yes"} == set(parse_rules("\n".join(yes)))


def test_people_terms_at_the_start(rung, xp):
    dtype = rung.float_dtypes[-1]
    # height short, tall; hair blonde, red, dark; eyes blue, brown
    p = rung.from_host([1, 2, 2, 1, 0, 3, 0], dtype)
    covered = rung.from_host([3, 5, 4, 1, 3, 5, 3], dtype)
    expected = np.array([1 / 3, 2 / 5, 1 / 2, 1, 0, 3 / 5, 0]).astype(dtype)
    assert_close(accuracy_gain(xp, p, covered, 3.0, 8.0), expected)


def test_foil_weighs_coverage(rung, xp):
    dtype = rung.float_dtypes[-1]
    # Tall: 6 of 7, Short: 1 of 1; of 8 rows 7 are positive
    p, covered = rung.from_host([6, 1], dtype), rung.from_host([7, 1], dtype)
    accuracy = rung.to_host(accuracy_gain(xp, p, covered, 7.0, 8.0))
    assert accuracy.argmax() == 1
    gains = rung.to_host(foil_gain(xp, p, covered, 7.0, 8.0))
    expected = [6 * (np.log2(6 / 7) - np.log2(7 / 8)), -np.log2(7 / 8)]
    np.testing.assert_allclose(gains, expected, rtol=1e-5)
    # of an even mix, the term that is accurate and covers much wins over the perfect one of a single row
    gains = rung.to_host(foil_gain(xp, p, covered, 7.0, 14.0))
    assert gains.argmax() == 0
