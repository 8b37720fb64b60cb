"""Anchors in prompts: they stand where the chat template writes the text tags that they replace in answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from grammars.values.format import Anchor

__all__ = ["put_anchors", "tags_of"]


def tags_of(anchors: Iterable[Anchor]) -> tuple[str, ...]:
    """The tags that a client's text may spell without meaning them."""
    return tuple(dict.fromkeys(tag.strip() for anchor in anchors for tag in (anchor.closes, anchor.opening)))


def put_anchors(pieces: Iterable[tuple[str, bool]], anchors: tuple[Anchor, ...]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a prompt with anchors in place of tags; pieces of clients' spellings stay as they are.

    A tag is replaced only where what it closes was opened: a template may close its tool definitions alike.
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
