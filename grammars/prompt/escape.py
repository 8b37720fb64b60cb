"""Clients' text that spells a special token stays text.

Templates paste what clients send as it is: ``<|im_end|>`` in a user's message would end that message.  Before
rendering, such spellings are wrapped in private characters; the prompt is then encoded in segments, and what stands
between the characters is encoded as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from special_tokens import SpecialTokens

__all__ = ["segments", "shield"]

_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_SHIELDED = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}|[{_OPEN}{_CLOSE}]")


def shield(value: Any, tokens: SpecialTokens) -> Any:
    """A copy of messages or tools in which every spelling of a special token is wrapped."""
    if isinstance(value, str):
        return _shield_text(value, tokens)
    if isinstance(value, Mapping):
        return {key: inner if key in ("role", "type") else shield(inner, tokens) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shield(inner, tokens) for inner in value]
    return value


def _shield_text(text: str, tokens: SpecialTokens) -> str:
    bare = text.replace(_OPEN, "").replace(_CLOSE, "")  # nobody may write these characters himself
    if not tokens.spells_marker(bare):
        return bare
    return "".join(
        piece if isinstance(piece, str) else f"{_OPEN}{tokens.text(piece)}{_CLOSE}" for piece in tokens.pieces(bare)
    )


def segments(prompt: str) -> Iterator[tuple[str, bool]]:
    """A rendered prompt in pieces, each with whether it is a client's spelling of a special token.

    A template's string methods may tear a pair of private characters apart; a lone one still keeps its two sides
    from joining into a token.
    """
    at = 0
    for found in _SHIELDED.finditer(prompt):
        if found.start() > at:
            yield prompt[at : found.start()], False
        if found[1]:
            yield found[1], True
        at = found.end()
    if at < len(prompt):
        yield prompt[at:], False
