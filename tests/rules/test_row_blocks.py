"""The search by blocks: the same literals as the search of all cuts, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import arraylearn as al
from arraylearn.backend.dispatch import tuned
from arraylearn.backend.namespace import Place
from arraylearn.rules import covering
from arraylearn.rules.find_literal import GAINS, Scoring, best_literal
from arraylearn.rules.grow_rule import all_rows, all_rows_in_blocks, lay_out_again, restrict
from arraylearn.rules.literals import Target, pack_weights, prepare, weigh
from arraylearn.rules.row_blocks import best_literal_in_blocks, lay_out
from arraylearn.table import learn_schema, read_table


@pytest.mark.parametrize("gain", ["accuracy", "foil"])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), n=st.integers(3, 150), is_weighted=st.booleans(), least=st.integers(0, 3))
@tuned(rule_counted_values=4, rule_first_blocks=1)  # sorted columns, though there are few values
def test_blocks_and_lists_agree(rung, xp, gain, seed, n, is_weighted, least):
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [rng.integers(0, 3, n), rng.integers(0, 30, n), rng.integers(0, 200, n), rng.integers(0, 3, n)]
    ).astype(float)
    x[rng.random(x.shape) < 0.1] = np.nan
    place = Place(xp, rung.device)
    candidates = prepare(place, read_table(x, learn_schema(x, [3]), place))
    weights = pack_weights(rng.integers(1, 9, n), place)[0]
    unit = 0.25 if is_weighted else None
    target = Target(rung.from_host(rng.random(n) < 0.4), weights if is_weighted else None, unit or 1.0)
    by_list = all_rows(candidates)
    by_block = all_rows_in_blocks(candidates, lay_out(candidates, candidates.lists), target)
    for _ in range(3):
        keep = rng.random(n) < 0.8
        mask = rung.from_host(keep)
        size = int((rung.to_host(by_list.is_live) & keep).sum())
        by_list = restrict(candidates, by_list, mask, size)
        by_block = lay_out_again(candidates, restrict(candidates, by_block, mask, size))
        if size == 0:
            return
        before, _ = weigh(xp, target, [by_list.is_live])[0]
        if not 0 < before.positive < before.covered:
            return
        scoring = Scoring(GAINS[gain], before, size, least, unit)
        expected = best_literal(candidates, by_list.is_live, by_list.lists, target, scoring)
        if by_block.blocks is None:  # few rows are left: their columns were sorted anew
            found = best_literal(candidates, by_block.is_live, by_block.lists, target, scoring)
        else:
            found = best_literal_in_blocks(candidates, by_block.is_live, by_block.blocks, scoring)
        if expected is None or (gain == "foil" and expected.score <= 0):
            # FOIL's gain falls with p where it is negative, so that the bounds do not hold there
            assert found is None or found.score <= 0
            continue
        assert found.condition == expected.condition
        np.testing.assert_allclose(
            (found.score, *found.counts), (expected.score, *expected.counts), rtol=1e-5
        )


@pytest.mark.parametrize("gain", ["accuracy", "foil"])
def test_covering_learns_the_same_rules(monkeypatch, gain):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4))
    y = ((X[:, 0] > 0.2) ^ (rng.random(700) < 0.1)).astype(int)
    learner = al.SequentialCoveringClassifier(gain=gain, min_coverage=2)
    found = learner.fit(X, y).to_text()
    monkeypatch.setattr(
        covering, "all_rows_in_blocks", lambda candidates, layout, target: all_rows(candidates)
    )
    assert learner.fit(X, y).to_text() == found
    assert len(learner.rules_) > 20


def test_least_coverage_follows_the_rows():
    """By default a rule covers a thousandth of the rows, and at least one."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(4000, 3)), rng.integers(0, 2, 4000)
    by_default = al.SequentialCoveringClassifier(max_rules=20).fit(X, y)
    assert (
        by_default.to_text()
        == al.SequentialCoveringClassifier(min_coverage=4, max_rules=20).fit(X, y).to_text()
    )
    assert (
        by_default.to_text()
        != al.SequentialCoveringClassifier(min_coverage=1, max_rules=20).fit(X, y).to_text()
    )
    few = al.SequentialCoveringClassifier().fit(X[:300], y[:300])
    assert few.to_text() == al.SequentialCoveringClassifier(min_coverage=1).fit(X[:300], y[:300]).to_text()
