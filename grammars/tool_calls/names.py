"""Which names a syntax can write: what follows a name must never be found inside it."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tool_calls.pattern import Hole, Pattern
from special_tokens.errors import ToolError, shown

__all__ = ["check_name", "enders", "first_word"]


def enders(pattern: Pattern, hole: str, after: Sequence[str] = ()) -> tuple[str, ...]:
    """What may follow ``hole`` in the pattern, each text cut to what is looked for: its first word, or a quote.

    ``after`` is what may follow where the pattern itself has no literal behind the hole.
    """
    at = next((i for i, part in enumerate(pattern) if part == Hole(hole)), None)
    if at is None:
        return ()
    following = pattern[at + 1] if at + 1 < len(pattern) else ""
    texts = [following] if isinstance(following, str) and following else after
    return tuple(text[0] if text[0] in "\"'" else first_word(text) for text in texts if text)


def first_word(text: str) -> str:
    """The first run of characters that are no white space; the white space itself where there is nothing else."""
    words = text.split()
    return words[0] if words else text


def check_name(name: str, pattern: Pattern, after: Sequence[str] = (), *, place: str, hole: str = "name") -> None:
    """Raises `ToolError` for a name that this pattern could not read back."""
    if not name or name != name.strip():
        raise ToolError(f"name {shown(name)} is empty or begins or ends with white space", place=place)
    for end in enders(pattern, hole, after):
        if end in name:
            raise ToolError(
                f"name {shown(name)} holds {shown(end)}, which ends a name in this model's format",
                place=place,
                expected="letters, digits, _ and -",
            )
