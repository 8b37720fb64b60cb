"""Call ids: the pattern that a model may write, and how an id is made."""

from __future__ import annotations

import hashlib
import re

from grammars.tool_calls.pattern import fill

__all__ = ["ID_STYLES", "id_pattern", "make_id"]

#: id style -> regular expression of the ids that a model may write
ID_STYLES = {
    "": r"[a-zA-Z0-9_-]{1,64}",
    "alnum9": r"[a-zA-Z0-9]{9}",
    "index": r"(?:0|[1-9][0-9]{0,2})",
}
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def id_pattern(style: str) -> str:
    """The regular expression of ids in this style; that of free ids for an unknown style."""
    return ID_STYLES.get(style, ID_STYLES[""])


def make_id(style: str, name: str, index: int, given: str = "") -> str:
    """Return an id in this style; the same arguments give the same id.

    A style with holes (``functions.$name:$index``) is filled.  Otherwise ``given`` is kept if it fits the style;
    else the id is nine letters and digits hashed from ``given``, name and index.
    """
    if "$" in style:
        return fill(style, {"name": name, "index": str(index)})
    if given and re.fullmatch(id_pattern(style), given):
        return given
    digest = int.from_bytes(hashlib.sha256(f"{given}\0{name}\0{index}".encode()).digest(), "big")
    return "".join(_ALPHABET[digest // len(_ALPHABET) ** i % len(_ALPHABET)] for i in range(9))
