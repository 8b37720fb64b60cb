"""Check names against a syntax: the text that ends a name must not occur in it."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tool_calls.pattern import CallPattern, Hole
from special_tokens.errors import ToolError, shown

__all__ = ["check_name", "first_word", "followers"]

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
