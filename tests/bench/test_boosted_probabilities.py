"""The table of boosting beside its peers: means over folds, ranks, and the two halves of the sets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB

pytest.importorskip("pandas")

from benchmarks import boosted_probabilities as table


def test_scores_are_those_of_scikit_learn_on_the_same_folds():
    X, y = table.load_set("iris")
    found = table.score_set("iris", {"ours": lambda seed: GaussianNB(), "twin": lambda seed: GaussianNB()})
    for seed, (losses, accuracies) in enumerate(zip(*found, strict=True)):
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        p = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")
        expected = -np.log(np.clip(p[np.arange(len(y)), y], table.LEAST, 1)).mean()
        np.testing.assert_allclose(losses, expected, rtol=1e-6)
        np.testing.assert_allclose(accuracies, 100 * (p.argmax(axis=1) == y).mean())


def test_ranks_and_halves():
    assert table.rank(np.array([2.0, 1.0, 3.0, 2.0])) == 2.5
    assert table.halves(list("abcde")) == {"chosen": list("ace"), "reported": list("bd")}


def test_report_states_the_bars(capsys, monkeypatch):
    def loss_and_hits(name, makers):
        ours = 1.6 if name == "b" else 1.0
        return table.Scores(np.array([[ours, 1.0, 2.0, 3.0]] * 2), np.array([[90.0, 80.0, 95.0, 70.0]] * 2))

    monkeypatch.setattr(table, "score_set", loss_and_hits)
    assert table.report(["a"], table.PEERS)
    assert not table.report(["a", "b"], table.PEERS)
    assert "mean rank 1.75 by log loss, 2.00 by accuracy; worst 1.60" in capsys.readouterr().out
