"""Rules as values and as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arraylearn.rules import Literal, Rule, parse_rule, parse_rules
from arraylearn.rules.given_rules import find_contradiction, resolve_rule
from arraylearn.table import Column, Schema

SCHEMA = Schema(
    (
        Column("hair", "nominal", ("Blonde", "Dark", "Red")),
        Column("age", "numeric"),
        Column("zip", "nominal", (1, 2, 30)),
    ),
    has_names=True,
)


@pytest.mark.parametrize(
    "text",
    [
        "hair = Blonde and eyes = Blue -> C1",
        "taxable income <= 80.5 and taxable income > 20 -> not at risk",
        "status in {Divorced, Single} -> Yes",
        'name = "3" and other = 3 -> "True"',
        '"a and b" = "x, y" -> "1e5"',
        "flag = True and count > -1.5e-07 -> 0",
        "petal width (cm) <= 0.8 -> setosa",
        "a-b = c-d -> e-f",
        "otherwise -> C2",
        '"->" = "{}" -> "="',
        'x = "say \\"hi\\" \\\\ there" -> y',
    ],
)
def test_text_and_back(text):
    rule = parse_rule(text)
    assert str(rule) == text
    assert parse_rule(str(rule)) == rule


scalars = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=8),
    st.integers(-(10**6), 10**6),
    st.booleans(),
)
names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=8)
literals = st.one_of(
    st.builds(lambda name, value: Literal(name, "=", value), names, scalars),
    st.builds(lambda name, values: Literal(name, "in", values), names, st.lists(st.integers(), min_size=1)),
    st.builds(
        lambda name, relation, value: Literal(name, relation, value),
        names,
        st.sampled_from(["<=", ">"]),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
)


@given(st.builds(Rule, st.lists(literals, max_size=3).map(tuple), scalars))
def test_any_rule_survives_its_text(rule):
    back = parse_rule(str(rule))
    assert back == rule
    assert hash(back) == hash(rule)


def test_many_rules():
    text = "# two rules\nhair = Red -> C1\n\n  otherwise -> C2\n"
    assert parse_rules(text) == (Rule((Literal("hair", "=", "Red"),), "C1"), Rule((), "C2"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hair = Red", "expected '->'"),
        ("hair Red -> C1", "expected '=' or 'in' or '<=' or '>'"),
        ("hair = -> C1", "expected a value"),
        ("= Red -> C1", "expected a column"),
        ("hair in {Red -> C1", "expected ',' or '}'"),
        ("age <= old -> C1", "finite number"),
        ("hair = Red -> ", "expected a class"),
        ("hair = Red -> C1 -> C2", "after the class"),
        ('hair = "Red -> C1', "cannot read"),
        ("hair < 3 -> C1", "cannot read"),
        ("", "expected a column"),
    ],
)
def test_bad_text(text, problem):
    with pytest.raises(ValueError, match="cannot read the rule") as caught:
        parse_rule(text)
    assert problem in str(caught.value)


def test_bad_literals():
    with pytest.raises(ValueError, match="`relation` must be"):
        Literal("a", "<", 1)
    with pytest.raises(ValueError, match="several categories"):
        Literal("a", "in", "text")
    with pytest.raises(ValueError, match="finite number"):
        Literal("a", ">", float("nan"))
    assert Literal("a", "in", ["y", 2, "x", "y"]).value == (2, "x", "y")


@pytest.mark.parametrize(
    ("text", "is_bad"),
    [
        ("a <= 1 and a > 1 -> C", True),
        ("a <= 1 and a > 2 -> C", True),
        ("a <= 2 and a > 1 -> C", False),
        ("a = x and a = y -> C", True),
        ("a in {x, y} and a = y -> C", False),
        ("a in {x, y} and a in {z} -> C", True),
    ],
)
def test_contradictions(text, is_bad):
    assert (find_contradiction(parse_rule(text).literals) is not None) == is_bad


def test_rules_on_a_schema():
    conditions, unknown = resolve_rule(
        parse_rule("hair in {Red, Green} and age > 3 and zip = 30 -> C"), SCHEMA
    )
    assert conditions == ((0, "in", (2,)), (1, ">", 3.0), (2, "=", 2))
    assert unknown == ["hair in {Green, Red}"]
    assert resolve_rule(parse_rule('zip = "2" -> C'), SCHEMA)[0] == ((2, "=", 1),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("height <= 3 -> C", "names the column 'height'; the columns are 'hair', 'age', 'zip'"),
        ("hair <= 3 -> C", "the column is nominal; use '=' or 'in'"),
        ("age = 3 -> C", "the column is numeric; use '<=' or '>'"),
        ("age <= 3 and age > 4 -> C", "can never match: the literals on 'age' exclude each other"),
    ],
)
def test_rules_that_do_not_fit_the_schema(text, message):
    with pytest.raises(ValueError, match="rule '") as caught:
        resolve_rule(parse_rule(text), SCHEMA)
    assert message in str(caught.value)
