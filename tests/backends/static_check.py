"""Checks every `xp.<name>` of a package against the array API, without running it.

    python -m tests.backends.static_check arraylearn [--namespace xp] [--allow bincount,scatter_add]

Each name must exist in the standard (array_api_strict) and in the installed ones of array_api_compat.numpy,
.cupy and .torch, and each call must fit the standard's signature.  array_api_compat alone would not do for
the second: its functions take **kwargs and swallow a wrong keyword.  Functions that wait for the device are
refused too.  Exit status 1 when something was found.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["check"]

STANDARD = "array_api_strict"
BACKENDS = ("array_api_compat.numpy", "array_api_compat.cupy", "array_api_compat.torch")

# In the standard, but the host waits for the device: array-api-compat assigns through masks on CuPy.
WAITING = {
    "clip": "write xp.minimum(xp.maximum(x, low), high)",
    "sign": "write comparisons with xp.where",
    "nonzero": "write xp.where, or compress with a known size",
    "unique_all": "the shape depends on the data",
    "unique_counts": "the shape depends on the data",
    "unique_inverse": "the shape depends on the data",
    "unique_values": "the shape depends on the data",
}


def check(paths: Iterable[Path], *, namespace: str = "xp", allow: Collection[str] = ()) -> list[str]:
    """One line, ``file:line: problem``, for each wrong use of the namespace in the files or directories."""
    return [finding for path in _python_files(paths) for finding in _check_file(path, namespace, allow)]


def main() -> int:
    options = _parse_arguments()
    findings = check(options.paths, namespace=options.namespace, allow=options.allow)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings, checked against {', '.join(_namespaces())}", file=sys.stderr)
    return 1 if findings else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check every `xp.<name>` against the array API.")
    parser.add_argument("paths", nargs="+", type=Path, help="files or directories")
    parser.add_argument("--namespace", default="xp", help="what the code calls the array namespace")
    parser.add_argument(
        "--allow", default=(), type=lambda text: text.split(","), help="comma-separated names to skip"
    )
    return parser.parse_args()


@functools.cache
def _namespaces() -> dict[str, Any]:
    """The standard and every backend that is installed, by name."""
    namespaces = {STANDARD: importlib.import_module(STANDARD)}
    for name in BACKENDS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                namespaces[name] = importlib.import_module(name)
        except ImportError as error:
            print(f"skipped {name}: {error}", file=sys.stderr)
    return namespaces


def _python_files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _check_file(path: Path, namespace: str, allow: Collection[str]) -> list[str]:
    findings = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        names = _names_below(node, namespace)
        if names and names[0] not in allow:
            findings |= {(node.lineno, problem) for problem in _missing(names)}
        if isinstance(node, ast.Call):
            names = _names_below(node.func, namespace)
            if names and names[0] not in allow:
                findings |= {(node.lineno, problem) for problem in _misfits(node, names)}
    return [f"{path}:{line}: {problem}" for line, problem in sorted(findings)]


def _names_below(node: ast.AST, namespace: str) -> list[str] | None:
    """["linalg", "solve"] for xp.linalg.solve and for self.xp.linalg.solve; None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
        is_name = isinstance(node, ast.Name) and node.id == namespace
        is_attribute = isinstance(node, ast.Attribute) and node.attr == namespace
        if is_name or is_attribute:
            return names
    return None


def _missing(names: list[str]) -> Iterator[str]:
    if names[0] in WAITING:
        yield f"{names[0]} makes the host wait: {WAITING[names[0]]}"
    for label, module in _namespaces().items():
        try:
            _resolve(module, names)
        except AttributeError:
            yield f"{'.'.join(names)} is missing in {label}"


def _resolve(value: Any, names: list[str]) -> Any:
    for name in names:
        value = getattr(value, name)
    return value


def _misfits(call: ast.Call, names: list[str]) -> Iterator[str]:
    """What the signatures have against the call; nothing if it spreads `*args` or `**kwargs`."""
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return
    keywords: dict[str, None] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            return
        keywords[keyword.arg] = None
    for label, module in _namespaces().items():
        signature = _signature(module, names)
        if signature is None:
            continue
        try:
            signature.bind(*call.args, **keywords)
        except TypeError as error:
            yield f"{'.'.join(names)}: {label}: {error}"


def _signature(module: Any, names: list[str]) -> inspect.Signature | None:
    try:
        return inspect.signature(_resolve(module, names))
    except (AttributeError, TypeError, ValueError):
        return None  # missing (reported elsewhere), or a compiled function that does not tell


if __name__ == "__main__":
    sys.exit(main())
