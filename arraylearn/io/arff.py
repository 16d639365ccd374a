"""Weka's files (ARFF): the attributes that the header declares, and rows of cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

__all__ = ["Attribute", "arff_rows", "read_arff_header"]

# the type of an attribute: numbers, text, or one of these values
Attribute = Literal["numeric", "string"] | tuple[str, ...]

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|\S+)\s+(.+)", flags=re.IGNORECASE)
# a cell and the separator behind it; a quote within a bare cell is a character like others
_BARE = r"""(?:[^,'"\s][^,]*?)?"""
_CELL = re.compile(rf"\s*(?:(?P<quoted>{_QUOTED})|(?P<bare>{_BARE}))\s*(?P<end>,|$)")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_arff_header(lines: Iterable[str], path: Path) -> list[tuple[str, Attribute]]:
    """Read the lines up to ``@data``; return the names and types of the attributes."""
    attributes: list[tuple[str, Attribute]] = []
    for raw in lines:
        text = raw.strip()
        if text.lower().startswith("@data"):
            break
        if found := _ATTRIBUTE.match(text):
            name = _unquoted(found[1]) if found[1][0] in "'\"" else found[1]
            attributes.append((name, _read_type(found[2].strip(), name, path)))
    if not attributes:
        raise ValueError(f"`path`: {str(path)!r} declares no @attribute.")
    return attributes


def arff_rows(lines: Iterable[str], path: Path) -> Iterator[list[str | None]]:
    """Yield the cells of each row; a bare ``?`` is missing (None), a quoted one is a value."""
    for raw in lines:
        text = raw.strip()
        if not text or text.startswith("%"):
            continue
        if text.startswith("{"):
            raise ValueError(
                f"`path`: {str(path)!r} has sparse rows, which cannot be read. Write them in full."
            )
        yield _cells(text, path)


def _read_type(text: str, name: str, path: Path) -> Attribute:
    word = text.lower()
    if word.startswith(("numeric", "real", "integer")):
        return "numeric"
    if word.startswith("string"):
        return "string"
    if not text.startswith("{") or "}" not in text:
        raise ValueError(
            f"`path`: attribute {name!r} of {str(path)!r} has type {text!r}; numeric, real, integer, string "
            "and nominal ones can be read."
        )
    domain = tuple("?" if value is None else value for value in _cells(text[1 : text.rindex("}")], path))
    repeated = (
        [value for value in domain if domain.count(value) > 1] if len(set(domain)) < len(domain) else []
    )
    if repeated:
        raise ValueError(f"`path`: attribute {name!r} of {str(path)!r} declares {repeated[0]!r} twice.")
    return domain


def _cells(text: str, path: Path) -> list[str | None]:
    if "'" not in text and '"' not in text:
        bare = [cell.strip() for cell in text.split(",")]
        return [None if cell == "?" else cell for cell in bare]
    cells: list[str | None] = []
    start, end = 0, ","
    while end:
        found = _CELL.match(text, start)
        if found is None:
            raise ValueError(
                f"`path`: a row of {str(path)!r} cannot be read from {text[start : start + 40]!r} on."
            )
        quoted, bare_cell, end = found["quoted"], found["bare"], found["end"]
        cells.append(_unquoted(quoted) if quoted is not None else None if bare_cell == "?" else bare_cell)
        start = found.end()
    return cells


def _unquoted(text: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])
