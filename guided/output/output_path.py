"""Check that a file can be written before the long work begins whose result it will hold."""

from __future__ import annotations

import os
from pathlib import Path

from special_tokens.errors import RequestError, shown

__all__ = ["check_writable", "unwritable"]


def check_writable(path: str | Path, place: str) -> Path:
    """Raise `RequestError`, naming ``place``, when a file could not be written to ``path``."""
    target = Path(path)
    folder = target.parent if str(target.parent) else Path()
    if target.is_dir():
        raise unwritable(path, place, "it is a folder")
    if not folder.is_dir():
        raise unwritable(path, place, f"there is no folder {shown(str(folder))}")
    if not os.access(target if target.exists() else folder, os.W_OK):
        raise unwritable(path, place, "permission denied")
    return target


def unwritable(path: str | Path, place: str, why: str) -> RequestError:
    """Return the error for a file that cannot be written."""
    return RequestError(
        f"cannot write {shown(str(path))}: {why}", place=place, expected="a file name in a folder that can be written"
    )
