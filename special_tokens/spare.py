"""Spare tokens: entries of a vocabulary that nothing uses, which may stand as anchors in a wire format."""

from __future__ import annotations

import re
from collections.abc import Sequence

from special_tokens.errors import TokenizerError, shown
from special_tokens.registry import SpecialTokens

__all__ = ["anchor_tokens", "spare_tokens"]

_PAD = re.compile(r"(?i)pad")
_SPARE = re.compile(r"(?i)unused|reserved|extra|placeholder|special_\d|spare")


def spare_tokens(tokens: SpecialTokens) -> tuple[str, ...]:
    """Return the texts of all markers, by id, other than ends, roles, named tokens and those in the template."""
    used = {end.text for end in tokens.ends} | {marker.text for marker in tokens.roles.values()}
    used |= set(tokens.facts.named.values())
    template = tokens.facts.chat_template
    texts = (token.text for token in tokens.added.values() if token.is_marker)
    return tuple(text for text in texts if text not in used and text not in template)


def anchor_tokens(tokens: SpecialTokens, given: bool | Sequence[int | str] = True) -> tuple[str, str]:
    """Return two spare tokens: the first closes a call, the second an argument.

    ``given`` are their ids or texts; True takes the last two pads by id, else the last two reserved tokens.  Raises
    `TokenizerError` where the vocabulary has no such pair, or for tokens that are not spare.
    """
    free = spare_tokens(tokens)
    if given is True:
        for looks in (_PAD, _SPARE):
            candidates = [text for text in free if looks.search(text)]
            if len(candidates) >= 2:
                return candidates[-2], candidates[-1]
        raise TokenizerError("the vocabulary has no two spare tokens", place="anchors", hint="leave anchors off")
    if not isinstance(given, list | tuple) or len(given) != 2 or given[0] == given[1]:
        raise TokenizerError(f"{shown(given)} is not possible", place="anchors", expected="True, or two tokens")
    texts = [tokens.added[token].text if isinstance(token, int) and token in tokens.added else token for token in given]
    for text in texts:
        if text not in free:
            raise TokenizerError(
                f"{shown(text)} is not a spare token",
                place="anchors",
                expected="the id or text of a marker that is not an end, not a role and not in the chat template",
            )
    return str(texts[0]), str(texts[1])
