"""RIPPER beside Weka's JRip: accuracy over ten folds, number of rules on all rows.

All twelve sets, with several shuffles: ``python -m benchmarks.reference_accuracy ripper``.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

import arraylearn as al
from tests.reference_data import ACCURACIES, ON_IRIS, accuracy_on_iris, load_reference

# Rules of JRip with the default, on all rows. Its own seeds spread by about a quarter (splice: 8 to 16).
RULES = {
    "vote": 4,
    "breast.cancer": 3,
    "credit.a": 4,
    "hepatitis": 4,
    "labor": 4,
    "glass": 8,
    "balance.scale": 12,
    "vowel": 44,
    "segment": 17,
    "splice": 14,
    "kr.vs.kp": 16,
    "mushroom": 9,
}
FAST = ("vote", "breast.cancer", "credit.a", "hepatitis", "balance.scale", "kr.vs.kp", "mushroom")


def accuracy(data, seed):
    right = 0
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(data.y, data.y):
        clf = al.RipperClassifier(random_state=seed).fit(data.X.iloc[train], data.y[train])
        right += int((clf.predict(data.X.iloc[test]) == data.y[test]).sum())
    return 100 * right / len(data.y)


def n_rules(data):
    fits = [al.RipperClassifier(random_state=seed).fit(data.X, data.y) for seed in range(5)]
    return float(np.mean([len(clf.rules_) + 1 for clf in fits]))


@pytest.mark.parametrize("name", ["vote", "breast.cancer", "balance.scale", "kr.vs.kp"])
def test_accuracy_of_one_set(name):
    # one shuffle against one shuffle: each spreads by 1 to 2 points
    found = accuracy(load_reference(name), seed=0)
    assert abs(found - ACCURACIES[name][1]) < (1.0 if name == "kr.vs.kp" else 4.0)


def test_accuracy_on_iris():
    assert abs(accuracy_on_iris(lambda seed: al.RipperClassifier(random_state=seed)) - ON_IRIS[1]) < 1.5


def test_number_of_rules():
    is_near = [abs(n_rules(load_reference(name)) - RULES[name]) <= 0.3 * RULES[name] for name in FAST]
    assert sum(is_near) >= len(FAST) - 2


@pytest.mark.parametrize(("name", "least"), [("vowel", 0.9), ("segment", 0.97)])
def test_many_classes(name, least):
    data = load_reference(name)
    clf = al.RipperClassifier(random_state=0).fit(data.X, data.y)
    assert clf.score(data.X, data.y) > least
    assert abs(len(clf.rules_) + 1 - RULES[name]) <= 0.3 * RULES[name]
