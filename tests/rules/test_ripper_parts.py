"""The parts of RIPPER by hand: description lengths, pruning, splits, candidates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from arraylearn.backend.namespace import Place
from arraylearn.rules.counts import Counts, Target, pack_weights
from arraylearn.rules.description_length import (
    Totals,
    data_bits,
    find_needless,
    least_data_bits,
    relative_bits,
    subset_bits,
    theory_bits,
)
from arraylearn.rules.find_literal import cut_between
from arraylearn.rules.from_tree import pessimistic_error
from arraylearn.rules.grow_rule import choose_length, count_prefixes, hold_back, shuffle_rows
from arraylearn.rules.literals import all_rows, choose_threshold, prepare, satisfies
from arraylearn.rules.rule import Condition
from arraylearn.table import learn_schema, read_table


def test_subset_bits():
    assert subset_bits(8, 2, 0.25) == pytest.approx(-2 * math.log2(0.25) - 6 * math.log2(0.75))
    assert subset_bits(8, 0, 0.0) == 0
    assert subset_bits(3, 3, 1.0) == 0


def test_theory_bits():
    assert theory_bits(0, 10) == 0
    assert theory_bits(1, 10) == pytest.approx(0.5 * subset_bits(10, 1, 0.1))
    four = 2 + 2 * math.log2(2) + subset_bits(10, 4, 0.4)
    assert theory_bits(4, 10) == pytest.approx(0.5 * four)


def test_data_bits():
    # nothing covered: 3 of 10 rows are wrong, and all of them are expected to be so
    assert data_bits(0.3, 0, 10, 0, 3) == pytest.approx(math.log2(11) + subset_bits(10, 3, 0.7 * 3 / 10))
    more = math.log2(11) + subset_bits(6, 1, 0.5 * 2 / 6) + subset_bits(4, 1, 1 / 4)
    assert data_bits(0.5, 6, 4, 1, 1) == pytest.approx(more)


def test_a_good_rule_pays_and_a_bad_one_goes():
    totals = Totals(positive=50, total=200, false_positive_share=0.25, n_conditions=40)
    good, bad = Counts(48, 49), Counts(1, 30)
    nothing, one = least_data_bits(totals, [], [], 0), least_data_bits(totals, [good], [2], 1)
    assert relative_bits(totals, 0, [good], [2], nothing) < -50
    assert relative_bits(totals, 1, [good, bad], [2, 2], one) > 0
    assert find_needless(totals, [good, bad], [2, 2]) == [1]
    assert find_needless(totals, [good], [2]) == []


def test_prefixes(rung, xp):
    x = np.array([[0.0], [1.0], [2.0], [3.0], [np.nan]])
    place = Place(xp, rung.device)
    candidates = prepare(place, read_table(x, learn_schema(x), place))
    target = Target(rung.from_host(np.array([0, 1, 1, 0, 1]) > 0), None)
    rows = rung.from_host(np.ones(5, dtype=bool))
    conditions = (Condition(0, ">", 0.5), Condition(0, "<=", 2.5))
    counts = count_prefixes(all_rows(candidates, target), conditions, rows)
    assert counts == [(3, 5), (2, 3), (2, 2)]
    weights = pack_weights(np.array([1, 2, 3, 4, 5]), place)[0]
    target = target._replace(weights=weights, unit=0.5)
    assert count_prefixes(all_rows(candidates, target), conditions, rows) == [
        (5, 7.5),
        (2.5, 4.5),
        (2.5, 2.5),
    ]


def counts_of(pairs):
    return [Counts(p, covered) for p, covered in pairs]


def test_choice_of_a_prefix():
    # (p - n) / (p + n): 0.2, 0.5, 0.5; the shorter one wins
    assert choose_length(counts_of([[6, 10], [6, 8], [3, 4]]), smoothing=0.0, on_all_rows=False) == 1
    # smoothing prefers the one that rests on more rows
    assert choose_length(counts_of([[10, 20], [8, 9], [1, 1]]), smoothing=0.0, on_all_rows=False) == 2
    assert choose_length(counts_of([[10, 20], [8, 9], [1, 1]]), smoothing=1.0, on_all_rows=False) == 1
    # the empty rule where nothing is better
    assert choose_length(counts_of([[9, 10], [4, 5]]), smoothing=0.0, on_all_rows=False) == 0
    # accuracy on all rows
    assert choose_length(counts_of([[5, 10], [5, 7], [2, 2]]), smoothing=1.0, on_all_rows=True) == 1
    # nothing held back: nothing pruned
    assert choose_length(counts_of([[0, 0], [0, 0]]), smoothing=1.0, on_all_rows=False) == 1


def test_split(rung, xp):
    x = np.arange(20.0)[:, None]
    place = Place(xp, rung.device)
    candidates = prepare(place, read_table(x, learn_schema(x), place))
    target = Target(rung.from_host(np.arange(20) < 6), None)
    order = shuffle_rows(place, target, 0)
    growing, is_held = hold_back(all_rows(candidates, target), order, 5, 3)
    held, grown = rung.to_host(is_held), rung.to_host(growing.is_live)
    np.testing.assert_array_equal(held, ~grown)
    assert (held.sum(), growing.size) == (6, 14)
    assert held[:6].sum() == 2


@pytest.mark.parametrize("n", [20, 600])
def test_conditions_cut_as_counted(rung, xp, n):
    """Few values are counted, many are kept sorted: the same rows either way."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(n, 2)), 1 if n == 20 else 6)
    x[::7, 1] = np.nan
    place = Place(xp, rung.device)
    candidates = prepare(place, read_table(x, learn_schema(x), place))
    assert (candidates.lists.shape[0] == 2) == (n == 600)
    mask = rung.to_host(satisfies(candidates, Condition(1, "<=", 0.25)))
    np.testing.assert_array_equal(mask, x[:, 1] <= 0.25)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1.0, 2.0, 1.5), (0.0, 100.0, 50.0), (2.3, 2.4, 2.35), (1.9, 3.0, 2.45), (-3.0, 1e6, 499998.5)],
)
def test_thresholds_are_halfway_between_their_neighbours(low, high, expected):
    assert choose_threshold(low, high, is_single=False) == expected
    single = [float(np.float32(value)) for value in (low, high)]
    assert choose_threshold(*single, is_single=True) == expected
    for choose in (choose_threshold, cut_between):
        tight = choose(low, math.nextafter(low, math.inf), is_single=False)
        assert low <= tight < math.nextafter(low, math.inf)


def test_a_row_halfway_is_below_the_cut_in_every_unit():
    for unit in (1.0, 0.1, 0.7, 2.54, 1e-9, 3e7):
        assert cut_between(unit * 1, unit * 5, is_single=False) > unit * 3


def test_pessimistic_error():
    # Witten and Frank: 2 errors of 6, 1 of 2, and none of one
    assert pessimistic_error(2, 6) == pytest.approx(0.47, abs=0.006)
    assert pessimistic_error(1, 2) == pytest.approx(0.72, abs=0.006)
    assert pessimistic_error(5, 14) == pytest.approx(0.45, abs=0.006)
    assert pessimistic_error(0, 0) == 1.0
