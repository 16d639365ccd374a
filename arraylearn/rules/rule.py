"""Literals and rules, as values that compare and print the same on every backend, and their text.

A rule reads ``hair = Blonde and age > 30 -> C1``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from typing import Literal as Choice

__all__ = [
    "RELATIONS",
    "CodedRule",
    "Condition",
    "Conditions",
    "Literal",
    "Relation",
    "Rule",
    "parse_rule",
    "parse_rules",
]

Relation = Choice["=", "in", "<=", ">"]
RELATIONS: tuple[Relation, ...] = ("=", "in", "<=", ">")


@dataclass(frozen=True)
class Literal:
    """One condition on one column; a missing value never meets it.

    Attributes
    ----------
    column : str
        Name of the column.
    relation : {"=", "in", "<=", ">"}
        The first two for categories, the others for numbers.
    value : scalar or tuple
        The category, the tuple of categories (sorted, without repetition) or the threshold.

    Examples
    --------
    >>> from arraylearn.rules import Literal
    >>> str(Literal("hair", "=", "Blonde")), str(Literal("age", "<=", 39.5))
    ('hair = Blonde', 'age <= 39.5')
    """

    column: str
    relation: Relation
    value: Any

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"`relation` must be '=', 'in', '<=' or '>'; got {self.relation!r}.")
        if self.relation == "in":
            if isinstance(self.value, str) or not isinstance(self.value, Iterable):
                raise ValueError(f"`value` must be several categories for 'in'; got {self.value!r}.")
            distinct = sorted(set(self.value), key=lambda value: (isinstance(value, str), value))
            object.__setattr__(self, "value", tuple(distinct))
        elif self.relation != "=":
            object.__setattr__(self, "value", _check_threshold(self.value))

    def __str__(self) -> str:
        # names and texts that could be misread stand in double quotes
        name = _quote_where_needed(self.column, is_name=True)
        if self.relation == "in":
            return f"{name} in {{{', '.join(_format_scalar(value) for value in self.value)}}}"
        return f"{name} {self.relation} {_format_scalar(self.value)}"


def _check_threshold(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"`value` must be a finite number for '<=' and '>'; got {value!r}.")
    return number


@dataclass(frozen=True)
class Rule:
    """A conjunction of literals and the class it concludes; without literals it matches every row.

    Attributes
    ----------
    literals : tuple of Literal
        All of them must hold.
    label : scalar
        The class.

    Examples
    --------
    >>> from arraylearn.rules import Rule, parse_rule
    >>> rule = parse_rule("hair = Blonde and eyes = Blue -> C1")
    >>> rule.label, len(rule.literals)
    ('C1', 2)
    >>> str(rule)
    'hair = Blonde and eyes = Blue -> C1'
    """

    literals: tuple[Literal, ...]
    label: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", tuple(self.literals))

    def __str__(self) -> str:
        condition = " and ".join(map(str, self.literals)) or "otherwise"
        return f"{condition} -> {_format_scalar(self.label)}"

    def __len__(self) -> int:
        return len(self.literals)


class Condition(NamedTuple):
    """A literal in numbers: its column and categories by their positions in a schema."""

    column: int  # position in the input
    relation: Relation
    value: Any  # code (`given_rules.UNKNOWN`: no row has it), tuple of codes, or threshold


Conditions = tuple[Condition, ...]
CodedRule = tuple[Conditions, int]  # conditions, and the position of the class among the labels


# ---- text

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*")
      | (?P<symbol>->|<=|>|=|\{|\}|,)
      | (?P<word>(?:[^\s"{},=<>-]|-(?!>))+)
    )""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"(?:[^\s\"{},=<>-]|-(?!>))+(?: (?:[^\s\"{},=<>-]|-(?!>))+)*")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf|nan)", re.IGNORECASE)
_COMMENT = re.compile(r"(?:^|\s\s)\s*#[^\"]*$")
_KEYWORDS = {"and", "in", "otherwise", "True", "False", "None"}


def _format_scalar(value: Any) -> str:
    """Write a category, a label or a threshold so that `parse_rule` reads the same value."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, str):
        return _quote_where_needed(str(plain))
    if isinstance(plain, float) and plain.is_integer() and abs(plain) < 1e15:
        return str(int(plain))
    return repr(plain)


def _quote_where_needed(text: str, *, is_name: bool = False) -> str:
    words = text.split(" ")
    is_plain = _PLAIN.fullmatch(text) is not None and not _KEYWORDS.intersection(words)
    if is_plain and (is_name or not _NUMBER.fullmatch(text)):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class _Token(NamedTuple):
    kind: str  # "quoted", "symbol", "word" or "end"
    text: str


class _Reader:
    """The tokens of one rule, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [*_split(text), _Token("end", "")]
        self.at = 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def is_next(self, *texts: str) -> bool:
        return self.next.kind != "quoted" and self.next.text in texts

    def skip(self, *texts: str) -> str:
        if not self.is_next(*texts):
            found = self.next.text or "the end"
            raise _refuse(self.text, f"expected {' or '.join(map(repr, texts))} before {found!r}")
        self.at += 1
        return self.tokens[self.at - 1].text

    def read_phrase(self, what: str) -> tuple[str, bool]:
        """Read a quoted text, or words up to the next symbol or keyword, and whether it was quoted."""
        if self.next.kind == "quoted":
            self.at += 1
            return self.tokens[self.at - 1].text, True
        words = []
        while self.next.kind == "word" and not self.is_next("and", "in"):
            words.append(self.next.text)
            self.at += 1
        if not words:
            raise _refuse(self.text, f"expected {what} before {self.next.text or 'the end'!r}")
        return " ".join(words), False

    def read_scalar(self, what: str) -> Any:
        text, is_quoted = self.read_phrase(what)
        return text if is_quoted else _to_scalar(text)


def parse_rule(text: str) -> Rule:
    r"""Read a rule.

    Parameters
    ----------
    text : str
        ``literal and literal ... -> label``, or ``otherwise -> label`` for a rule that matches every row. A
        literal is ``name = category``, ``name in {category, category}``, ``name <= number`` or
        ``name > number``. Names, categories and labels may hold blanks; those that hold ``= < > { } , "``,
        the words ``and`` or ``in``, or that are text but look like a number stand in double quotes
        (inside: ``\"`` and ``\\``).

    Returns
    -------
    Rule
        ``str(rule)`` gives the text back, up to blanks and needless quotes.

    Examples
    --------
    >>> from arraylearn.rules import parse_rule
    >>> parse_rule("taxable income > 80 and status in {Single, Divorced} -> Yes").literals[1].value
    ('Divorced', 'Single')
    """
    reader = _Reader(text)
    literals: list[Literal] = []
    if reader.is_next("otherwise") and reader.tokens[1].text == "->":
        reader.skip("otherwise")
    elif not reader.is_next("->"):
        literals.append(_read_literal(reader))
        while reader.is_next("and"):
            reader.skip("and")
            literals.append(_read_literal(reader))
    reader.skip("->")
    label = reader.read_scalar("a class")
    if reader.next.kind != "end":
        raise _refuse(text, f"{reader.next.text!r} after the class")
    return Rule(tuple(literals), label)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Read one rule per line, as `to_text` of the rule classifiers writes them.

    Blank lines, and what follows a ``#`` at the start of a line or after two blanks, are left out.

    Examples
    --------
    >>> from arraylearn.rules import parse_rules
    >>> [rule.label for rule in parse_rules("hair = Red -> C1" + chr(10) + "eyes = Brown -> C2")]
    ['C1', 'C2']
    """
    rules = (_COMMENT.sub("", raw).strip() for raw in text.splitlines())
    return tuple(parse_rule(rule) for rule in rules if rule)


def _read_literal(reader: _Reader) -> Literal:
    name, _ = reader.read_phrase("a column")
    relation: Relation = reader.skip("=", "in", "<=", ">")  # type: ignore[assignment]
    if relation != "in":
        value = reader.read_scalar("a value")
    else:
        reader.skip("{")
        value = [reader.read_scalar("a category")]
        while reader.skip(",", "}") == ",":
            value.append(reader.read_scalar("a category"))
    try:
        return Literal(name, relation, value)
    except ValueError as error:
        raise _refuse(reader.text, str(error).rstrip(".")) from None


def _split(text: str) -> Iterator[_Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise _refuse(text, f"cannot read {text[position:end].strip()!r}")
        kind = found.lastgroup or ""
        content = found.group(kind)
        if kind == "quoted":
            content = re.sub(r"\\(.)", lambda one: "\n" if one[1] == "n" else one[1], content[1:-1])
        yield _Token(kind, content)
        position = found.end()


def _to_scalar(text: str) -> Any:
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _refuse(text: str, problem: str) -> ValueError:
    return ValueError(
        f"cannot read the rule {text!r}: {problem}. "
        "A rule reads 'name = category and name <= number -> class'."
    )
