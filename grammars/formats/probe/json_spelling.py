"""How a template spells JSON: its separators and its white space, read off values that it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.probe.sample_calls import CallTexts
from grammars.values.spelling import DEFAULT_SPELLING, Spelling

__all__ = ["is_sorted", "json_spans", "spelling_of", "usually_spelled"]

_DECODER = json.JSONDecoder()
#: A nested value of the sample call with values of all types.
_NESTED = s.ALL_TYPES[s.KEYS[5]]


def json_spans(text: str, value: Any) -> Iterator[tuple[int, int]]:
    """Where in ``text`` an object stands that says ``value``."""
    for match in re.finditer(r"\{", text):
        try:
            found, end = _DECODER.raw_decode(text, match.start())
        except ValueError:
            continue
        if found == value:
            yield match.start(), end


def spelling_of(texts: CallTexts) -> Spelling:
    """The spelling of JSON in calls; the default where the template shows none, or none that can be told."""
    for text, value in ((texts.both, s.BOTH), (texts.all_types, _NESTED)):
        span = next(json_spans(text, value), None) if text is not None else None
        if text is not None and span is not None:
            return _read(text[slice(*span)], value, texts.all_types or text)
    return DEFAULT_SPELLING


def _read(text: str, value: Any, longest: str) -> Spelling:
    """The spelling of ``value`` in ``text``; ``longest`` shows how far its lines are indented."""
    if "\n" in text:
        blanks = max((len(run) for run in re.findall(r"\n +", longest)), default=1)
        return Spelling(max_whitespace=2 * blanks)
    first, second = (json.dumps(key) for key in list(value)[:2])
    between = re.search(rf"\{{{first}(\s*:\s*)\"\w*\"(\s*,\s*){second}", text)
    if between is None:
        return DEFAULT_SPELLING
    found = Spelling(between[2], between[1])
    return found if json.dumps(value, separators=found.separators) == text else DEFAULT_SPELLING


def is_sorted(texts: CallTexts) -> bool:
    """Did the template bring the keys of an arguments object into order that were given in another one?"""
    first, second = s.BOTH
    turned = texts.turned
    if turned is None or next(json_spans(turned, {second: s.BOTH[second], first: s.BOTH[first]}), None) is None:
        return False
    return turned.find(f'"{first}"') < turned.find(f'"{second}"')


def usually_spelled(text: str, form_spelling: Spelling) -> str:
    """``text`` with the sample's arguments spelled as `grammars` would, where white space is free."""
    if not form_spelling.max_whitespace:
        return text
    for value in (s.BOTH, {}):
        for begin, end in reversed(list(json_spans(text, value))):
            text = text[:begin] + json.dumps(dict(value)) + text[end:]
    return text
