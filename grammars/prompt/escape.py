"""Escape special tokens in prompts: clients' text that spells one stays text.

Templates paste clients' text unchanged: ``<|im_end|>`` in a user's message would end that message.  Before rendering,
such spellings are wrapped in private-use characters; the prompt is then encoded in segments, and the text between the
characters is encoded as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from special_tokens import SpecialTokens

__all__ = ["escape_special_tokens", "segments"]

_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_SHIELDED = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}|[{_OPEN}{_CLOSE}]")


def escape_special_tokens(value: Any, tokens: SpecialTokens) -> Any:
    """Return a copy of messages or tools in which every spelling of a special token is wrapped."""
    if isinstance(value, str):
        return _shield_text(value, tokens)
    if isinstance(value, Mapping):
        return {
            key: inner if key in ("role", "type") else escape_special_tokens(inner, tokens)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [escape_special_tokens(inner, tokens) for inner in value]
    return value


def _shield_text(text: str, tokens: SpecialTokens) -> str:
    bare = text.replace(_OPEN, "").replace(_CLOSE, "")  # a client's own would look like ours
    if not tokens.spells_marker(bare):
        return bare
    return "".join(
        piece if isinstance(piece, str) else f"{_OPEN}{tokens.text(piece)}{_CLOSE}" for piece in tokens.pieces(bare)
    )


def segments(prompt: str) -> Iterator[tuple[str, bool]]:
    """Yield a rendered prompt in pieces, each with whether it is a client's spelling of a special token.

    A template's string methods may separate a pair of the private-use characters; a lone one is dropped, and still
    keeps the text on its two sides from joining into a token.
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
