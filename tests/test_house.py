"""The shape of the package in figures: sizes of rooms, names with several meanings, parameters, vocabulary.

Each figure has a ceiling in `tests/house.json`; it may fall and must not rise. Two commands help:

    python -m tests.test_house           # print figures that differ from the file
    python -m tests.test_house --write   # write today's figures, after they have fallen
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "arraylearn"
CEILINGS = Path(__file__).with_name("house.json")
MOST_FILES, MOST_PARAMETERS, FEWEST_LINES = 15, 8, 20

# Words that make a person of a thing, or are a private language: counted in names, comments and strings.
WORDS = {
    "who": ("who", "whom", "whoever"),
    "nobody": ("nobody", "somebody", "everybody", "everyone", "anyone"),
    "desk": ("desk", "desks"),
    "pile": ("pile", "piles"),
    "assistant": ("assistant", "assistants", "assist", "assists", "assisted"),
    "leader": ("leader", "leaders"),
    "team": ("team", "teams"),
    "wake": ("wake", "wakes", "woken", "awake"),
    "tell": ("tell", "tells", "told"),
    "say": ("say", "says", "said", "speak", "speaks"),
}
PHRASES = ("first day", "take down", "takes down", "goes whole", "grown whole", "without a word")
# Words that are plain English in prose but no name: n_left, n_right, ints, floats, feature, sync, buffer.
NAMES = ("few", "many", "whole", "real", "line", "slot", "room", "wait", "waits")
# Public functions with the signature of scikit-learn or of the literature; `__init__` is free as well.
FREE_SIGNATURES = ("cart", "evaluate")


@cache
def modules() -> dict[str, str]:
    """Return path in the package -> text."""
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse(modules()[path])


def room_of(path: str) -> str:
    return Path(path).parent.as_posix()


def top_room_of(path: str) -> str:
    return Path(path).parts[0].removesuffix(".py")


def large_rooms() -> dict[str, int]:
    counts = Counter(map(room_of, modules()))
    return {room: n for room, n in counts.items() if n > MOST_FILES}


def module_names() -> dict[str, int]:
    """Return names of several modules."""
    counts = Counter(Path(path).stem for path in modules() if not path.endswith("__init__.py"))
    return {name: n for name, n in counts.items() if n > 1}


def class_names() -> dict[str, int]:
    found = {
        (node.name, path, node.lineno)
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }
    counts = Counter(name for name, *_ in found)
    return {name: n for name, n in counts.items() if n > 1}


def long_signatures() -> dict[str, int]:
    """Return rooms -> functions with more than eight parameters; `self` does not count."""
    counts: Counter[str] = Counter()
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and node.name not in ("__init__", *FREE_SIGNATURES):
                arguments = node.args
                names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
                names += [one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None]
                counts[room_of(path)] += len(set(names) - {"self", "cls"}) > MOST_PARAMETERS
    return {room: n for room, n in counts.items() if n}


def small_files() -> dict[str, int]:
    """Return files of less than twenty lines that a single module imports."""
    importers: dict[str, set[str]] = {}
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
                for name in names:
                    importers.setdefault(name, set()).add(path)
    return {
        path: len(text.splitlines())
        for path, text in modules().items()
        if Path(path).name not in ("__init__.py", "__main__.py", "_version.py")
        and len(text.splitlines()) < FEWEST_LINES
        and len(importers.get("arraylearn." + path.removesuffix(".py").replace("/", "."), ())) == 1
    }


def vocabulary() -> dict[str, int]:
    """Return how often each forbidden word stands in the package."""
    counts: Counter[str] = Counter()
    of_word = {form: word for word, forms in WORDS.items() for form in forms}
    for text in modules().values():
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            parts = _parts(token.string)
            counts.update(of_word[part] for part in parts if part in of_word)
            if token.type == tokenize.NAME:
                counts.update(f"{part} (in a name)" for part in parts if part in NAMES)
        flat = " ".join(text.lower().replace("#", " ").split())
        counts.update({phrase: flat.count(phrase) for phrase in PHRASES})
    return {word: n for word, n in sorted(counts.items()) if n}


def patched_thresholds() -> dict[str, int]:
    """Return test files -> constants of the package that they name as text or assign, in order to patch them.

    Tests choose by `arraylearn.backend.dispatch.tuned`, so that a constant can be renamed or moved. What is
    left patches bodies of growth and walks, and goes with them.
    """
    return {
        path.relative_to(ROOT).as_posix(): n
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__) and (n := len(list(_patched(ast.parse(path.read_text())))))
    }


def _patched(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"(\w+\.)*_[A-Z][A-Z0-9_]+", node.value):
                yield node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            named = [one.value for one in node.args if isinstance(one, ast.Constant)]
            yield from (name for name in named if re.fullmatch(r"(\w+\.)*[A-Z][A-Z0-9_]+", str(name)))
        elif isinstance(node, ast.Assign):
            targets = [one.attr for one in node.targets if isinstance(one, ast.Attribute)]
            yield from (name for name in targets if re.fullmatch(r"_?[A-Z][A-Z0-9_]+", name))


def _parts(text: str) -> list[str]:
    """Split prose, snake_case and CamelCase into lower-case words."""
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)]


FIGURES = {
    "files of rooms with more than fifteen": large_rooms,
    "modules of one name": module_names,
    "classes of one name": class_names,
    "functions with more than eight parameters": long_signatures,
    "lines of small files with one importer": small_files,
    "forbidden words": vocabulary,
    "patched constants of test files": patched_thresholds,
}


def differences(name: str, found: dict[str, int]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what has risen and what has fallen since the ceilings were written."""
    ceilings = json.loads(CEILINGS.read_text())[name]
    pairs = {key: (ceilings.get(key, 0), found.get(key, 0)) for key in {*ceilings, *found}}
    risen = {key: f"{old} -> {new}" for key, (old, new) in sorted(pairs.items()) if new > old}
    fallen = {key: f"{old} -> {new}" for key, (old, new) in sorted(pairs.items()) if new < old}
    return risen, fallen


@pytest.mark.parametrize("name", FIGURES)
def test_figures_only_fall(name):
    risen, fallen = differences(name, FIGURES[name]())
    if fallen:
        print(f"{name}: fallen {fallen}; write it down with `python -m tests.test_house --write`")
    assert not risen, f"{name}: {risen}"


def test_a_rise_is_seen(monkeypatch, tmp_path):
    """The figures count what they are said to count."""
    source = (
        "class Twice: ...\nclass Own: ...\nclass Own: ...\n"
        "def wide(a, b, c, d, *, e, f, g, h, i): ...\n"
        "def narrow(self, a, b, c, d, e, f, g, h): ...  # who is told\n"
        "few_rows = 'a team takes down what WhoKnows'\n"
    )
    invented = {
        "one/a.py": source,
        "two/a.py": "class Twice: ...\n",
        **{f"big/m{i}.py": "" for i in range(16)},
    }
    monkeypatch.setattr(sys.modules[__name__], "modules", lambda: invented)
    monkeypatch.setattr(sys.modules[__name__], "tree_of", lambda path: ast.parse(invented[path]))
    assert large_rooms() == {"big": 16}
    assert module_names() == {"a": 2}
    assert class_names() == {"Own": 2, "Twice": 2}
    assert long_signatures() == {"one": 1}
    assert vocabulary() == {"few (in a name)": 1, "takes down": 1, "team": 1, "tell": 1, "who": 2}


def test_a_patched_constant_is_seen():
    source = (
        "patch.setattr(module, '_LEAST', 1)\npatch.setattr(module, 'MOST', 1)\nmodule._FEW = 3\n"
        "for name in ('package.module._WORTH', 'function', 'CAPITALS'):\n    patch.setattr(module, name, 1)\n"
    )
    assert sorted(_patched(ast.parse(source))) == ["MOST", "_FEW", "_LEAST", "package.module._WORTH"]


# ---- documents


def paths_in_backticks(text: str) -> list[str]:
    quoted = re.findall(r"`([\w.\-/]+)`", text)
    return [one for one in quoted if "/" in one or one.endswith((".py", ".md", ".toml", ".cff", ".json"))]


@pytest.mark.parametrize(
    "document", ["CONTRIBUTING.md", "SECURITY.md", "docs/open.md", "CHANGELOG.md", "README.md"]
)
def test_paths_exist(document):
    text = (ROOT / document).read_text()
    paths = paths_in_backticks(text)
    assert document != "CONTRIBUTING.md" or len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / document).parent.joinpath(link).exists()] == []


def test_the_map_shows_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = text.split("## Map", 1)[1].split("```", 2)[1]
    shown = {name.rstrip("/") for name in re.findall(r"[\w.]+/|\w+\.py", drawn)}
    rooms = {top_room_of(path) for path in modules()} - {"__init__", "__main__", "_version"}
    assert sorted(room for room in rooms if not {room, f"{room}.py"} & shown) == []


def test_extras_are_used():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module_of = {"scikit-learn": "sklearn", "scikit-learn-intelex": "sklearnex"}
    module_of |= {"cupy-cuda12x": "cupy", "cupy-cuda13x": "cupy"}
    whole = "\n".join(modules().values())
    for extra in set(project["optional-dependencies"]) - {"test", "dev"}:
        for requirement in project["optional-dependencies"][extra]:
            name = re.match(r"[\w.\-]+", requirement)[0]
            assert re.search(rf"\b{module_of.get(name, name)}\b", whole), f"{extra}: nothing uses {name}"


if __name__ == "__main__":
    figures = {name: dict(sorted(count().items())) for name, count in FIGURES.items()}
    if "--write" in sys.argv or not CEILINGS.exists():
        CEILINGS.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    for name, figure in figures.items():
        risen, fallen = differences(name, figure)
        print(f"{name}: {len(figure)}, {sum(figure.values())} in all; risen {risen}, fallen {fallen}")
