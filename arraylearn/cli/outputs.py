"""Files that a command writes: never over an input, over others only with --force, whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

__all__ = ["is_stream", "new_text_file", "refuse_output"]


def refuse_output(option: str, path: str, *, inputs: list[str], is_forced: bool) -> None:
    """Raise if a command must not or cannot write to `path`, named by `option`, before the work is done.

    The `inputs` that the command reads are never replaced. They are compared as files, not as names: links
    are seen through. Other files that exist are replaced if `is_forced`.
    """
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"`{option}` must name a file; {path!r} is a folder.")
    folder = place.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"`{option}`: there is no folder {str(folder)!r}. Make it first.")
    for given in inputs:
        if _is_same_file(place, Path(given)):
            raise ValueError(
                f"`{option}`: {path!r} is the input file {given!r}, which is never overwritten. "
                "Choose another name."
            )
    if is_stream(place):
        return
    if os.path.lexists(place) and not is_forced:
        raise ValueError(f"`{option}`: {path!r} exists. Choose another name, or replace it with --force.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"`{option}`: the folder {str(folder)!r} is not writable. Choose another one.")


def is_stream(place: Path) -> bool:
    """Whether a name stands for a device or a pipe (``/dev/stdout``), which holds nothing to overwrite."""
    return place.exists() and not place.is_file() and not place.is_dir()


@contextlib.contextmanager
def new_text_file(path: str) -> Iterator[TextIO]:
    """Open a file to write; it takes the place of an old one only when everything is written."""
    place = Path(path)
    if is_stream(place):
        with place.open("w", newline="", encoding="utf-8") as file:
            yield file
        return
    from arraylearn.io.drafts import draft_of

    with draft_of(place) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        yield file


def _is_same_file(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return os.path.samefile(one, other)
    return one.resolve() == other.resolve()
