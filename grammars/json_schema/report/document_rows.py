"""Rows of the report for a schema as a whole: one at the root instead of one at every place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from grammars.json_schema.document.dialects import Dialect, is_metaschema_uri
from grammars.json_schema.document.string_formats import FORMATS
from grammars.values.report import Outcome, ReportRow

__all__ = ["ESCAPES", "ESCAPES_IN_KEYS", "KEY_ORDER", "document_rows"]

KEY_ORDER = ReportRow("", "properties", Outcome.NARROWED, "keys come in the order of the schema")
ESCAPES = ReportRow(
    "",
    "type",
    Outcome.NARROWED,
    "\\u escapes of letters, \\/ and, in patterns, control characters without a short escape are not written",
)
ESCAPES_IN_KEYS = ReportRow("", "type", Outcome.NARROWED, f"{ESCAPES.reason} in keys")

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
    schema_uri = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(schema_uri, str) and not is_metaschema_uri(schema_uri):
        reason = f"an unknown meta-schema: read as {dialect.name}, and all keywords of that are enforced"
        yield ReportRow("", "$schema", Outcome.NARROWED, reason)
    keys = {key for value in _objects(schema) for key in value} if "draft-03" in str(schema_uri) else set()
    if lost := keys & _DRAFT_3:
        reason = f"draft-03 is read as {dialect.name}, which has no {', '.join(sorted(lost))}"
        yield ReportRow("", "$schema", Outcome.RELAXED, reason)
    patterns = list(_patterns(schema))
    if any(map(_HAS_DOT.match, patterns)):
        yield _DOT
    if any(map(_HAS_FOREIGN_CLASS.search, patterns)):
        yield _CLASSES
    if dialect.order >= _ASSERTED_SINCE and _has_format(schema):
        yield ReportRow("", "format", Outcome.NARROWED, f"enforced, though {dialect.name} calls it an annotation")


#: A dot for any character, and classes with characters beyond ASCII.
_HAS_DOT = re.compile(r"(?s)(?:\\.|\[(?:\\.|[^\]\\])*\]|[^.\\\[])*\.")
_HAS_FOREIGN_CLASS = re.compile(r"\\[WDsS]|\[\^[^\[\]]*\\[wd]")
_DRAFT_3 = {"divisibleBy", "disallow", "extends"}


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects in a schema."""
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield value
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)


def _patterns(schema: Any) -> Iterator[str]:
    """The patterns in a schema, those of keys included."""
    for value in _objects(schema):
        keys = value.get("patternProperties")
        yield from (p for p in (value.get("pattern"), *(keys if isinstance(keys, dict) else ())) if isinstance(p, str))


def _has_format(schema: Any) -> bool:
    return any(isinstance(name := value.get("format"), str) and name in FORMATS for value in _objects(schema))
