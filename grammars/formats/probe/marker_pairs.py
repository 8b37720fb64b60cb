"""Pair markers by their spelling: ``<x>`` and ``</x>``, ``<|START_X|>`` and ``<|END_X|>``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from special_tokens import SpecialTokens

__all__ = ["closing_of", "is_closing", "is_pair", "markers_in_template"]

#: closing word -> opening word, as parts of a marker's name
_WORDS = {"end": "start", "close": "open", "suffix": "prefix", "finish": "start", "stop": "start"}
_OPENERS = {"begin": "start"}
_MARKER = re.compile(r"<[|/\w\uff5c][^<>\s'\"]*>|\[/?[A-Z][A-Z_ ]+\]")


def is_pair(opening: str, closing: str) -> bool:
    """Whether ``closing`` is the closing marker of ``opening``."""
    return opening != closing and is_closing(closing) and _skeleton(opening) == _skeleton(closing)


def closing_of(opening: str, candidates: Iterable[str]) -> str | None:
    """The first candidate that closes ``opening``, or None."""
    return next((text for text in candidates if is_pair(opening, text)), None)


def markers_in_template(template: str, tokens: SpecialTokens) -> list[str]:
    """The markers spelled in the template's text, in order, then the added tokens of the vocabulary."""
    spelled = dict.fromkeys(_MARKER.findall(template))
    return [*spelled, *(token.text for token in tokens.added.values() if token.text not in spelled)]


def is_closing(marker: str) -> bool:
    """Whether the marker is spelled like a closing one."""
    words = _words(marker)
    return "/" in marker[:3] or any(word in _WORDS for word in words) or re.match(r"<[^|].*\|>$", marker) is not None


def _skeleton(marker: str) -> tuple[str, ...]:
    kept = (_WORDS.get(word, _OPENERS.get(word, word)) for word in _words(marker))
    return tuple(kept)


def _words(marker: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[^\W_]+", marker)]
