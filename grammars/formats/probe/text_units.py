"""Split rendered text into units (markers, words, single characters), so that no marker is ever cut; pair markers.

The common prefix of ``<|channel>`` and ``<|tool_call>`` by characters ends inside both; by units it is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from special_tokens import SpecialTokens

__all__ = ["Units", "closing_of", "is_closing", "is_pair", "markers_in_template"]

#: A word in doubled brackets, or in brackets that prose does not put around single words.
_DOUBLED = (
    r"<</?[\w|:.-]+>>|\[\[/?[\w|:.-]+\]\]|[\u27e6\u3010\u27ea\u300a\u00ab]/?[\w|:.-]+[\u27e7\u3011\u27eb\u300b\u00bb]"
)
#: Tags and bracketed markers as templates spell them, and unclosed ones (``<parameter=``).
_UNIT = re.compile(rf"{_DOUBLED}|<\|[^<>\s]*?\|>|<[^<>\s]*>?|\[/?[A-Z][A-Z_ ]*\]|\[\|[^|\]\s]*\|\]|\w+|\s|[\s\S]")
_MARKER = re.compile(rf"{_DOUBLED}|<[|\w/\uff5c\"][^<>\s]*>|\[/?[A-Z][A-Z_ ]+\]|\[\|[^|\]\s]*\|\]")


class Units:
    """Splits text into units for one vocabulary."""

    def __init__(self, tokens: SpecialTokens) -> None:
        self.tokens = tokens
        self._units: dict[str, list[str]] = {}

    def split(self, text: str) -> list[str]:
        """The units of ``text``, whose concatenation is ``text``.  The list is cached: do not modify it."""
        out = self._units.get(text)
        if out is not None:
            return out
        out = self._units[text] = []
        for piece in self.tokens.pieces(text):
            out += _UNIT.findall(piece) if isinstance(piece, str) else [self.tokens.text(piece)]
        return out

    def is_marker(self, unit: str) -> bool:
        """Whether the unit is an added token or spelled like a marker."""
        return self.tokens.id_of(unit) is not None or _MARKER.fullmatch(unit) is not None

    def markers(self, text: str) -> list[str]:
        """The markers in ``text``, in order."""
        return [unit for unit in self.split(text) if self.is_marker(unit)]

    def common_prefix(self, *texts: str) -> str:
        """The longest prefix of whole units that all texts share."""
        return "".join(_shared([self.split(text) for text in texts]))

    def common_suffix(self, *texts: str) -> str:
        """The longest suffix of whole units that all texts share."""
        return "".join(reversed(_shared([self.split(text)[::-1] for text in texts])))


def _shared(lists: Sequence[list[str]]) -> list[str]:
    out = []
    for column in zip(*lists, strict=False):
        if len(set(column)) > 1:
            break
        out.append(column[0])
    return out


#: closing word -> opening word, as parts of a marker's name
_WORDS = {"end": "start", "close": "open", "suffix": "prefix", "finish": "start", "stop": "start"}
_OPENERS = {"begin": "start"}
_IN_TEMPLATE = re.compile(r"<[|/\w\uff5c][^<>\s'\"]*>|\[/?[A-Z][A-Z_ ]+\]")


def is_pair(opening: str, closing: str) -> bool:
    """Whether ``closing`` is the closing marker of ``opening``."""
    return opening != closing and is_closing(closing) and _skeleton(opening) == _skeleton(closing)


def closing_of(opening: str, candidates: Iterable[str]) -> str | None:
    """The first candidate that closes ``opening``, or None."""
    return next((text for text in candidates if is_pair(opening, text)), None)


def markers_in_template(template: str, tokens: SpecialTokens) -> list[str]:
    """The markers spelled in the template's text, in order, then the added tokens of the vocabulary."""
    spelled = dict.fromkeys(_IN_TEMPLATE.findall(template))
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
