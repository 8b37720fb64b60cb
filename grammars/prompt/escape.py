"""Escape special tokens in prompts: clients' text that spells one stays text, and anchors stand in place of tags.

Templates paste clients' text unchanged: ``<|im_end|>`` in a user's message would end that message.  Before rendering,
such spellings are wrapped in private-use characters; the prompt is then encoded in segments, and the text between the
characters is encoded as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from grammars.values.format import Anchor
from special_tokens import SpecialTokens

__all__ = ["escape_special_tokens", "put_anchors", "segments", "tags_of"]

_OPEN, _CLOSE, _BREAK = "\ue0f0", "\ue0f1", "\ue0f2"
#: One of them as a template may write it: as it is, or escaped by JSON or by Python's ``repr``.
_OWN = re.compile(r"([\ue0f0-\ue0f2]|\\ue0f[0-2])")
#: Roles, types and keys that templates compare and look up.
_WORD = re.compile(r"\w+")


def escape_special_tokens(value: Any, tokens: SpecialTokens, tags: tuple[str, ...] = ()) -> Any:
    """Return a copy of messages or tools in which every spelling of a special token or a tag is wrapped, in keys too.

    A text that ends in the beginning of one gets a character that keeps a template from completing it.
    """
    if isinstance(value, str):
        return _escape_text(value, tokens, tags)
    if isinstance(value, Mapping):
        return {
            _escape_word(key, tokens, tags): _escape_word(inner, tokens, tags)
            if key in ("role", "type")
            else escape_special_tokens(inner, tokens, tags)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [escape_special_tokens(inner, tokens, tags) for inner in value]
    return value


def _escape_word(value: Any, tokens: SpecialTokens, tags: tuple[str, ...]) -> Any:
    is_word = isinstance(value, str) and _WORD.fullmatch(value)
    return value if is_word else escape_special_tokens(value, tokens, tags)


def _escape_text(text: str, tokens: SpecialTokens, tags: tuple[str, ...]) -> str:
    bare = _OWN.sub("\ufffd", text)  # a client's own would look like ours
    escaped = "".join(
        _with_tags(piece, tags) if isinstance(piece, str) else f"{_OPEN}{tokens.text(piece)}{_CLOSE}"
        for piece in tokens.pieces(bare)
    )
    is_begun = tokens.begins_marker(escaped) or any(_begins(escaped, tag) for tag in tags)
    return escaped + _BREAK if is_begun else escaped


def _with_tags(text: str, tags: tuple[str, ...]) -> str:
    return re.sub("|".join(map(re.escape, tags)), rf"{_OPEN}\g<0>{_CLOSE}", text) if tags else text


def _begins(text: str, tag: str) -> bool:
    return any(text.endswith(tag[:length]) for length in range(1, len(tag)))


def segments(prompt: str, tokens: SpecialTokens, tags: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """Yield a rendered prompt in pieces, each with whether it is a client's spelling of a special token or a tag.

    A template's string methods may separate a pair of the private-use characters; a lone one is dropped, and still
    keeps the text on its two sides from joining into a token.
    """
    parts = ["", *_OWN.split(prompt), ""]  # texts at odd places, between two of the characters
    for before, text, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        if text:
            is_pair = before[-1:] in (_OPEN, "0") and after[-1:] in (_CLOSE, "1")
            yield text, is_pair and (text in tags or tokens.id_of(text) in tokens.marker_ids)


def tags_of(anchors: Iterable[Anchor]) -> tuple[str, ...]:
    """The tags that a client's text may spell without meaning them."""
    return tuple(dict.fromkeys(tag.strip() for anchor in anchors for tag in (anchor.closes, anchor.opening)))


def put_anchors(pieces: Iterable[tuple[str, bool]], anchors: tuple[Anchor, ...]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a prompt with anchors in place of tags; pieces of clients' spellings stay as they are.

    Anchors stand where the template writes the tags that they replace in answers, but only where what a tag closes was
    opened: a template may close its tool definitions alike.
    """
    if not anchors:
        yield from pieces
        return
    texts = sorted({text for anchor in anchors for text in (anchor.closes, anchor.opening)}, key=len, reverse=True)
    tags = re.compile("|".join(map(re.escape, texts)))
    is_open = dict.fromkeys(anchors, False)

    def replaced(match: re.Match[str]) -> str:
        for anchor in anchors:
            if match[0] == anchor.closes and is_open[anchor]:
                is_open[anchor] = False
                return anchor.token
            is_open[anchor] |= match[0] == anchor.opening
        return match[0]

    for text, is_text in pieces:
        yield text if is_text else tags.sub(replaced, text), is_text
