"""Rows of the report for a schema as a whole: one at the root instead of one at every place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from grammars.json_schema.document.dialects import Dialect, is_metaschema_uri
from grammars.json_schema.document.string_formats import FORMATS
from grammars.values.report import Outcome, ReportRow

__all__ = ["CONTROLS", "CONTROLS_IN_KEYS", "KEY_ORDER", "document_rows", "patterns_of"]

KEY_ORDER = ReportRow("", "properties", Outcome.NARROWED, "keys come in the order of the schema")
CONTROLS = ReportRow("", "type", Outcome.NARROWED, "control characters without a short escape are not written")
CONTROLS_IN_KEYS = ReportRow("", "type", Outcome.NARROWED, f"{CONTROLS.reason} in keys")

_WHOLE = ReportRow("", "type", Outcome.NARROWED, "integers are written without point and exponent")
_DOT = ReportRow(
    "",
    "pattern",
    Outcome.EXACT,
    "a . in a pattern matches CR, U+2028 and U+2029, as for validators, unlike ECMA-262",
)
_CLASSES = ReportRow(
    "", "pattern", Outcome.EXACT, "\\w, \\d and \\s are those of ECMA-262: Python's re may reject what they allow"
)
_SURROGATES = ReportRow(
    "", "pattern", Outcome.NARROWED, "no text holds lone surrogates: classes in patterns leave them out"
)
_ASSERTED_SINCE = 8  # from draft 2019-09 on a format is an annotation unless a vocabulary says otherwise


def document_rows(schema: Any, dialect: Dialect, *, digits: int, has_integers: bool) -> Iterator[ReportRow]:
    """The rows for the whole of ``schema``.

    ``digits``: the most that numbers without bounds are written with, 0 where there are none; ``has_integers``: some
    numbers must be whole.
    """
    if digits:
        reason = f"numbers are written with at most {digits} digits in a row, and below 1.8e308"
        yield ReportRow("", "type", Outcome.NARROWED, reason)
    if has_integers:
        yield _WHOLE
    if isinstance(schema, dict) and isinstance(schema.get("$schema"), str) and not is_metaschema_uri(schema["$schema"]):
        reason = f"an unknown meta-schema: read as {dialect.name}, and all keywords of that are enforced"
        yield ReportRow("", "$schema", Outcome.NARROWED, reason)
    if isinstance(schema, dict) and "draft-03" in str(schema.get("$schema")) and (lost := _keys(schema) & _DRAFT_3):
        reason = f"draft-03 is read as {dialect.name}, which has no {', '.join(sorted(lost))}"
        yield ReportRow("", "$schema", Outcome.RELAXED, reason)
    patterns = list(chain.from_iterable(patterns_of(schema)))
    if any(map(_HAS_DOT.match, patterns)):
        yield _DOT
    if any(map(_HAS_FOREIGN_CLASS.search, patterns)):
        yield _CLASSES
    if any(map(_has_surrogates, patterns)):
        yield _SURROGATES
    if dialect.order >= _ASSERTED_SINCE and _has_format(schema):
        yield ReportRow("", "format", Outcome.NARROWED, f"enforced, though {dialect.name} calls it an annotation")


#: A dot for any character, and classes with characters beyond ASCII.
_HAS_DOT = re.compile(r"(?s)(?:\\.|\[(?:\\.|[^\]\\])*\]|[^.\\\[])*\.")
_HAS_FOREIGN_CLASS = re.compile(r"\\[WDsS]|\[\^[^\[\]]*\\[wd]")
_DRAFT_3 = {"divisibleBy", "disallow", "extends"}


def _keys(schema: Any) -> set[str]:
    """The keys of all objects in a schema."""
    keys: set[str] = set()
    todo = [schema]
    while todo:
        value = todo.pop()
        keys |= value.keys() if isinstance(value, dict) else set()
        todo += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return keys


_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\[pP]\{(?:(?:General_Category|gc)=)?(?:Cs|C|Other)\}")


def _has_surrogates(pattern: str) -> bool:
    """Whether the pattern names unpaired surrogates."""
    return "\\" in pattern and _SURROGATE.search(_PAIR.sub("", pattern.replace("\\\\", ""))) is not None


def patterns_of(schema: Any) -> Iterator[tuple[str, ...]]:
    """The patterns of each object in a schema that has some, key patterns included."""
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            pattern, keys = value.get("pattern"), value.get("patternProperties")
            several = tuple(p for p in (pattern, *(keys if isinstance(keys, dict) else ())) if isinstance(p, str))
            if several:
                yield several
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)


def _has_format(schema: Any) -> bool:
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            named = value.get("format")
            if isinstance(named, str) and named in FORMATS:
                return True
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return False
