"""Files that are replaced only when the new one is complete and on the disk."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["draft_of"]


@contextmanager
def draft_of(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of an empty draft beside the file; at the end of the block it takes the file's place.

    A link stays a link, and the new file has the mode of the old one, or the usual one. Where the block
    raises, the draft is removed and the old file stays as it is.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o666))
    mode = stat.S_IMODE(os.stat(target if target.exists() else draft).st_mode)
    try:
        yield draft
        os.chmod(draft, mode)
        _flush(draft)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _flush(target.parent)


def _flush(path: Path) -> None:
    """Return when a file, or the list of files of a folder, is on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
