"""Infer how a template spells JSON, its separators and white space, from the values that it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.probe.sample_calls import CallTexts
from grammars.values.spelling import DEFAULT_SPELLING, Spelling

__all__ = ["is_sorted", "json_spans", "spelling_of", "with_default_spelling"]

_DECODER = json.JSONDecoder()
#: A nested value of the sample call with values of all types.
_NESTED = s.ALL_TYPES[s.KEYS[5]]


def json_spans(text: str, value: Any) -> Iterator[tuple[int, int]]:
    """The spans in ``text`` of JSON objects that equal ``value``."""
    for match in re.finditer(r"\{", text):
        try:
            decoded, end = _DECODER.raw_decode(text, match.start())
        except ValueError:
            continue
        if decoded == value:
            yield match.start(), end


def spelling_of(texts: CallTexts) -> Spelling:
    """The spelling of JSON in calls; the default if the template writes none that is recognised."""
    for text, value in ((texts.both, s.BOTH), (texts.all_types, _NESTED)):
        span = next(json_spans(text, value), None) if text is not None else None
        if text is not None and span is not None:
            return _read(text[slice(*span)], value, texts.all_types or text)
    return DEFAULT_SPELLING


def _read(text: str, value: Any, longest: str) -> Spelling:
    """The spelling of ``value`` in ``text``; ``longest`` shows the deepest indentation."""
    if "\n" in text:
        blanks = max((len(run) for run in re.findall(r"\n +", longest)), default=1)
        return Spelling(max_whitespace=2 * blanks)
    first, second = (json.dumps(key) for key in list(value)[:2])
    between = re.search(rf"\{{{first}(\s*:\s*)\"\w*\"(\s*,\s*){second}", text)
    if between is None:
        return DEFAULT_SPELLING
    spelling = Spelling(between[2], between[1])
    return spelling if json.dumps(value, separators=spelling.separators) == text else DEFAULT_SPELLING


def is_sorted(texts: CallTexts) -> bool:
    """Whether the template sorted the keys of an arguments object that were passed in another order."""
    first, second = s.BOTH
    turned = texts.reversed_keys
    if turned is None or next(json_spans(turned, {second: s.BOTH[second], first: s.BOTH[first]}), None) is None:
        return False
    return turned.find(f'"{first}"') < turned.find(f'"{second}"')


def with_default_spelling(text: str, form_spelling: Spelling) -> str:
    """``text`` with the sample's arguments in the default spelling if ``form_spelling`` leaves white space free."""
    if not form_spelling.max_whitespace:
        return text
    for value in (s.BOTH, {}):
        for begin, end in reversed(list(json_spans(text, value))):
            text = text[:begin] + json.dumps(dict(value)) + text[end:]
    return text
