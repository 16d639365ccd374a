"""The search by blocks, a compiled body: the same literals as the array program, which scores all cuts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arraylearn as al
from arraylearn.backend.dispatch import tuned, use_compiled
from arraylearn.backend.namespace import HOST, Place
from arraylearn.rules.counts import Target, pack_weights, weigh
from arraylearn.rules.find_literal import Scoring, best_literal
from arraylearn.rules.literals import all_rows, choose_body, condense, focus, prepare, restrict
from arraylearn.table import learn_schema, read_table

needs_numba = pytest.mark.rungs("compiled")


def prepare_both(x, target):
    """All rows as the array program searches them, and as the compiled body does."""
    found = []
    for mode in ("never", "always"):
        with use_compiled(mode):
            found.append(all_rows(prepare(HOST, read_table(x, learn_schema(x, [3]), HOST)), target))
    assert found[0].sums is None
    assert (found[1].sums is None) == (found[1].lists.shape[0] == 0)
    return found


@needs_numba
@pytest.mark.parametrize("gain", ["accuracy", "foil", "smoothed_foil"])
@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n=st.integers(3, 400), is_weighted=st.booleans(), least=st.integers(0, 3))
@tuned(rule_counted_values=4)  # sorted columns, though there are few values
def test_blocks_and_lists_agree(gain, seed, n, is_weighted, least):
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [rng.integers(0, 3, n), rng.integers(0, 30, n), rng.integers(0, 900, n), rng.integers(0, 3, n)]
    ).astype(float)
    x[rng.random(x.shape) < 0.1] = np.nan
    weights, unit = (pack_weights(rng.integers(1, 9, n), HOST)[0], 0.25) if is_weighted else (None, None)
    target = Target((x[:, 1] > 9) ^ (rng.random(n) < 0.3), weights, unit or 1.0)
    lives = prepare_both(x, target)
    near = lives[1]
    for share in (0.9, 0.3, 0.8, 0.2):
        keep = rng.random(lives[0].candidates.n_rows) < share
        size = int((lives[0].is_live & keep).sum())
        lives = [restrict(live, keep, size, near) for live in lives]
        if share == 0.3:  # a table of the rows that are left
            lives = [condense(live) for live in lives]
        before, _ = weigh(HOST.xp, lives[0].target, [lives[0].is_live])[0]
        if not 0 < before.positive < before.covered:
            return
        expected, found = (
            best_literal(live, Scoring(HOST, gain, before, size, least, unit)) for live in lives
        )
        if expected is None or (gain != "accuracy" and expected.score <= 0):
            # such a literal ends a rule; bounds do not hold there, as FOIL's gain falls with p
            assert found is None or found.score <= 0
            continue
        assert found.condition == expected.condition
        np.testing.assert_allclose((found.score, *found.counts), (expected.score, *expected.counts), 1e-12)


@needs_numba
def test_sums_follow_the_rows():
    """Sums that were corrected are those of the rows; those of missing values come last."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    x[::3, 1] = np.nan
    x[:, 3] = 0
    with tuned(rule_counted_values=4):
        _, live = prepare_both(x, Target(rng.random(300) < 0.4))
    masks = rng.random((2, 300)) < [[0.5], [0.9]]
    near = restrict(live, masks[0], int(masks[0].sum()))
    found = restrict(live, masks[0] & masks[1], int((masks[0] & masks[1]).sum()), near)
    order = np.argsort(x[:, 1])
    for at, block in ((0, slice(0, 64)), (2, slice(128, 192)), (3, slice(192, 200)), (-1, slice(200, 300))):
        is_positive = found.target.is_positive[order[block][found.is_live[order[block]]]]
        np.testing.assert_array_equal(found.sums[1, at] >> 31, [(~is_positive).sum(), is_positive.sum()])


@pytest.mark.rungs("host")
@pytest.mark.parametrize("mode", ["never", pytest.param("always", marks=needs_numba)])
def test_a_table_of_few_rows_of_few_rows(mode):
    """Ranks stay those of the whole table; missing values are last all the same."""
    x = np.arange(4096.0)[:, None] * np.ones((1, 4))
    x[4092, 0] = np.nan
    target = Target(np.arange(4096) % 2 == 0)
    with use_compiled(mode):
        live = all_rows(prepare(HOST, read_table(x, learn_schema(x), HOST)), target)
        for first in (3900, 190):
            size = live.candidates.n_rows - first
            live = focus(live, np.arange(live.candidates.n_rows) >= first, size)
    assert live.candidates.n_rows == live.size == 6
    np.testing.assert_array_equal(live.candidates.lists[0], [0, 1, 3, 4, 5, 2])


@needs_numba
@pytest.mark.parametrize("gain", ["accuracy", "foil"])
def test_covering_learns_the_same_rules(gain):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4))
    y = ((X[:, 0] > 0.2) ^ (rng.random(700) < 0.1)).astype(int)
    learner = al.SequentialCoveringClassifier(gain=gain, min_coverage=2)
    texts = []
    for mode in ("never", "always"):
        with use_compiled(mode):
            texts.append(learner.fit(X, y).to_text())
    assert texts[0] == texts[1]
    assert len(learner.rules_) > 20


def test_the_choice_of_a_body_gives_its_reason(rung):
    place = Place(rung.load(), rung.device)
    with use_compiled("auto"):
        found = choose_body(place, 19_999), choose_body(place, 20_000)
    if rung.name == "compiled":
        assert found[0] == "less work than 20,000"
        assert found[1].__name__ == "RowBlocks"
    elif rung.name != "numpy":
        assert found == (f"the rows are computed with by {place.library}",) * 2


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
