"""`import arraylearn` is cheap, and the rooms import one another in one direction only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import arraylearn

PACKAGE = Path(arraylearn.__file__).parent
# A room may import those to its left (and itself).
ORDER = [
    {"_typing", "_version"},
    {"backend"},
    {"checks", "weights", "progress"},
    {"table", "measures", "kernels", "gaussian"},
    {"grow", "walk"},
    {"estimator", "folds", "datasets"},
    {"bayes", "tree", "svm"},
    {"forest", "boosting", "rules"},
    {"selection", "scale", "explain", "io", "plot"},
    {"selftest", "bench"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
# Methods that serve a later room import it when they are called: (module, room).
LATER = {("estimator.py", "explain")}
FAMILIES = {"bayes", "tree", "svm", "forest", "boosting", "rules"}
HEAVY = ("torch", "cupy", "matplotlib", "pandas", "polars", "dask", "sklearn", "narwhals", "rich")


def modules():
    paths = sorted(PACKAGE.rglob("*.py"))
    return [
        path for path in paths if path.parent != PACKAGE or path.name not in ("__init__.py", "__main__.py")
    ]


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("arraylearn."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "arraylearn":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.split(".")[1] for alias in node.names if alias.name.startswith("arraylearn.")
            )


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_of_the_house(path):
    room = room_of(path)
    assert room in LEVEL, f"give {room} a place in ORDER"
    for other in set(imported_rooms(path)) - {room}:
        if (str(path.relative_to(PACKAGE)), other) in LATER:
            continue
        assert LEVEL[other] <= LEVEL[room], f"{room} must not import {other}"
        if {room, other} <= FAMILIES:
            assert (room in ("forest", "boosting", "rules"), other) == (True, "tree"), (
                f"{room} must not import {other}"
            )


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if room_of(path) != "backend"],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_array_libraries_are_named_in_the_backend_room_only(path):
    banned = {"torch", "cupy", "cupyx", "jax"}
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] not in banned, f"{path.name}:{node.lineno} imports {name}"


def test_import_loads_nothing_heavy():
    program = f"import sys, arraylearn; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_estimators_load_no_optional_library():
    optional = ("torch", "cupy", "matplotlib", "dask")
    program = (
        "import sys, numpy as np, arraylearn as al\n"
        "[getattr(al, name) for name in al.__all__]\n"
        f"print([name for name in {optional!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_type_checkers_see_the_public_names():
    tree = ast.parse(Path(arraylearn.__file__).read_text())
    for_checkers = next(
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {}
    for node in for_checkers.body:
        for alias in node.names:
            assert alias.asname == alias.name  # otherwise strict checkers take it for a private import
            path = f"{node.module}.{alias.name}"
            seen[alias.name] = path if path in arraylearn._HOMES.values() else node.module
    assert seen == arraylearn._HOMES


def test_every_room_for_users_is_public():
    """The others hold no learner and no array function, or run from the command line."""
    inside = {"backend", "bench", "cli", "grow", "selftest", "walk"}
    rooms = {path.parent.name for path in Path(arraylearn.__file__).parent.glob("*/__init__.py")}
    for name in rooms - inside:
        assert getattr(arraylearn, name).__name__ == f"arraylearn.{name}"
    assert {name for name in rooms if name in arraylearn.__all__} == rooms - inside
    # other names than scikit-learn's for what is not the same
    assert not any(hasattr(arraylearn, name) for name in ("ensemble", "cross_validate"))


def test_every_public_name_exists():
    assert [name for name in arraylearn.__all__ if not hasattr(arraylearn, name)] == []
    assert set(arraylearn.__all__) <= set(dir(arraylearn))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        arraylearn.nothing  # noqa: B018
