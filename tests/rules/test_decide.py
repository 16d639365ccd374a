"""Rule sets matched by bit masks: against a loop over rules and rows, on every rung, without a sync."""

from __future__ import annotations

import numpy as np
import pytest

from arraylearn.backend.namespace import Place
from arraylearn.rules.decide import compile_rules, fired, first_rule, match_rows
from arraylearn.rules.rule import Condition
from arraylearn.table import Column, Schema, Table

SCHEMA = Schema(
    (
        Column("a", "numeric"),
        Column("b", "nominal", ("x", "y", "z")),
        Column("c", "numeric"),
        Column("d", "nominal", ("u", "v")),
    )
)


def draw_rules(rng, n_rules):
    rules = []
    for _ in range(n_rules):
        conditions = []
        for column in rng.permutation(4)[: rng.integers(0, 4)].tolist():
            if column in (0, 2):
                relation = ("<=", ">")[rng.integers(2)]
                conditions.append(Condition(column, relation, float(rng.integers(-2, 3))))
            elif rng.random() < 0.5:
                conditions.append(Condition(column, "=", int(rng.integers(2))))
            else:
                conditions.append(Condition(column, "in", (0, 1)))
        rules.append(tuple(conditions))
    return rules


def meets(condition, numeric, codes, row):
    if condition.column in (0, 2):
        value = numeric[row, (0, 2).index(condition.column)]
        return bool(value <= condition.value if condition.relation == "<=" else value > condition.value)
    code = codes[(1, 3).index(condition.column), row]
    return code == condition.value if condition.relation == "=" else code in condition.value


@pytest.mark.parametrize("n_rules", [1, 7, 62, 63, 130])
def test_against_a_loop(rung, xp, float_dtype_name, n_rules):
    rng = np.random.default_rng(n_rules)
    rules = draw_rules(rng, n_rules)
    numeric = rng.integers(-3, 4, size=(40, 2)).astype(float)
    numeric[rng.random(numeric.shape) < 0.2] = np.nan
    codes = rng.integers(-1, 2, size=(2, 40)).astype(np.int32)
    expected = np.array(
        [[all(meets(one, numeric, codes, row) for one in rule) for rule in rules] for row in range(40)]
    )
    matcher = compile_rules(Place(xp, rung.device), rules, SCHEMA)
    table = Table(rung.from_host(numeric, float_dtype_name), rung.from_host(codes), SCHEMA)
    with rung.forbid_syncs():
        words = match_rows(xp, matcher, table)
        first = first_rule(xp, words, n_rules)
        bits = fired(xp, words, n_rules)
    np.testing.assert_array_equal(rung.to_host(bits) > 0, expected)
    padded = np.concatenate((expected, np.ones((40, 1), dtype=bool)), axis=1)
    np.testing.assert_array_equal(rung.to_host(first), padded.argmax(axis=1))


def test_rules_without_conditions(rung, xp):
    table = Table(
        rung.from_host(np.zeros((3, 2)), rung.float_dtypes[-1]), rung.from_host([[0] * 3] * 2), SCHEMA
    )
    words = match_rows(xp, compile_rules(Place(xp, rung.device), [(), ()], SCHEMA), table)
    assert rung.to_host(words).tolist() == [[3]] * 3
    nothing = match_rows(xp, compile_rules(Place(xp, rung.device), [], SCHEMA), table)
    assert rung.to_host(first_rule(xp, nothing, 0)).tolist() == [0, 0, 0]


def test_more_edges_than_a_bin_can_count(rung, xp):
    schema = Schema((Column("a", "numeric"),))
    rules = [
        (Condition(0, "<=", -1.0),),
        tuple(Condition(0, "<=", float(i)) for i in range(70_000, 2, -2)),
        (Condition(0, ">", 65_998.0),),
    ]
    numbers = np.array([[-1.0], [3.0], [4.5], [65_998.5], [np.nan]], dtype=np.float32)
    codes = np.zeros((0, 5), dtype=np.int32)
    table = Table(rung.from_host(numbers), rung.from_host(codes), schema)
    words = match_rows(xp, compile_rules(Place(xp, rung.device), rules, schema), table)
    assert rung.to_host(first_rule(xp, words, 3)).tolist() == [0, 1, 3, 2, 3]


@pytest.mark.rungs("launches")
def test_number_of_calls_does_not_depend_on_the_rules(rung, xp):
    counts = []
    for n_rules in (5, 60):
        rules = [
            (Condition(0, "<=", float(i)), Condition(1, "=", i % 3), Condition(3, "=", i % 2))
            for i in range(n_rules)
        ]
        table = Table(
            rung.from_host(np.ones((10, 2)), rung.float_dtypes[-1]),
            rung.from_host(np.zeros((2, 10), dtype=np.int32)),
            SCHEMA,
        )
        matcher = compile_rules(Place(xp, rung.device), rules, SCHEMA)
        before = rung.counts()
        match_rows(xp, matcher, table)
        counts.append(rung.counts()["launches"] - before["launches"])
    # CuPy searches twelve times as many edges in four more steps
    assert counts[0] <= counts[1] <= counts[0] + 30 < 120
