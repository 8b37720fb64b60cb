"""Names and ids of calls: whether a syntax can write a name, and how an id is made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from grammars.tool_calls.pattern import CallPattern, Hole, fill
from grammars.tree.nodes import Node, Pattern, Text
from grammars.values.format import ToolCallFormat
from special_tokens.errors import ToolError, shown

__all__ = ["ID_STYLES", "check_name", "first_word", "followers", "hole_nodes", "hole_texts", "id_pattern", "make_id"]

_NAME = "letters, digits, _ and -"


def followers(pattern: CallPattern, hole: str, after: Sequence[str] = ()) -> tuple[str, ...]:
    """The texts that end the value of ``hole``: the quote or the first word of what follows it.

    ``after`` are the possible followers if the pattern has no literal after the hole.
    """
    at = next((i for i, part in enumerate(pattern) if part == Hole(hole)), None)
    if at is None:
        return ()
    following = pattern[at + 1] if at + 1 < len(pattern) else ""
    texts = [following] if isinstance(following, str) and following else after
    return tuple(text[0] if text[0] in "\"'" else first_word(text) for text in texts if text)


def first_word(text: str) -> str:
    """The first word of ``text``; ``text`` itself if it is only white space."""
    words = text.split()
    return words[0] if words else text


def check_name(name: str, pattern: CallPattern, after: Sequence[str] = (), *, place: str, hole: str = "name") -> None:
    """Raise `ToolError` if ``name``, written by this pattern, could not be read back."""
    if not name or name != name.strip():
        raise ToolError(f"name {shown(name)} is empty or has white space around it", place=place, expected=_NAME)
    for end in followers(pattern, hole, after):
        if end in name:
            raise ToolError(
                f"name {shown(name)} contains {shown(end)}, which ends a name in this model's format",
                place=place,
                expected=_NAME,
            )


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


def hole_texts(form: ToolCallFormat, name: str, index: int, given: str = "") -> dict[str, str]:
    """The texts of a call's ``name``, ``id`` (see `make_id`) and ``index``, which begins at ``index_base``."""
    number = index + int(form.option("index_base", 0))
    return {"name": name, "id": make_id(form.id_style, name, index, given), "index": str(number)}


def hole_nodes(form: ToolCallFormat, name: str) -> dict[str, Node]:
    """The grammar of a call's ``name``, ``id`` and ``index``."""
    return {"name": Text(name), "id": Pattern(id_pattern(form.id_style)), "index": Pattern(id_pattern("index"))}
