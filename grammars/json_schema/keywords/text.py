"""The keywords of strings: ``minLength``, ``maxLength``, ``pattern`` and ``format``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.places import Place
from grammars.json_schema.document.string_formats import ANY_TEXT, FORMATS, later_format_reason, unknown_format_reason
from grammars.regular.lexer_cost import expanded_size, is_costly
from grammars.regular.syntax.ecma import InvalidPattern, NotRegular, disputed, language, may_match_less
from grammars.regular.terms import ALL, ANY, NONE, Regular, inter, neg, rep
from grammars.values.report import Outcome, ReportRow
from special_tokens.errors import SchemaError

__all__ = [
    "KEYWORDS",
    "allow",
    "deny",
    "pattern_language",
    "pattern_reading_rows",
    "unknown_format_rows",
]


KEYWORDS = ("minLength", "maxLength", "pattern", "format")


def allow(schema: Mapping[str, Any], place: Place, documents: Documents, notes: list[ReportRow]) -> Regular:
    """The strings that satisfy the keywords; a keyword without a regular language is noted as relaxed."""
    parts = _parts(schema, place, documents, notes)
    languages = [part for part in parts if part is not None]
    return inter(*languages) if languages else ALL


def deny(schema: Mapping[str, Any], place: Place, documents: Documents, notes: list[ReportRow]) -> Regular | None:
    """The strings that break at least one keyword (or some of them, with a note); None when none can be broken."""
    parts = _parts(schema, place, documents, notes, negated=True)
    languages = [part for part in parts if part is not None]
    if len(languages) < len(parts):
        return ALL  # any string may break a pattern that is not understood
    return neg(inter(*languages)) if languages else None


def unknown_format_rows(schema: Mapping[str, Any], place: Place) -> list[ReportRow]:
    """The row for an unknown format, including those of numbers."""
    name = schema.get("format")
    if not isinstance(name, str) or name in FORMATS or name in ANY_TEXT:
        return []
    return [ReportRow(place.pointer, "format", Outcome.EXACT, unknown_format_reason(name))]


def _parts(
    schema: Mapping[str, Any],
    place: Place,
    documents: Documents,
    notes: list[ReportRow],
    *,
    negated: bool = False,
) -> list[Regular | None]:
    """The language of each keyword: never wider than the keyword, or, if it is to be negated, never narrower.

    None stands for a pattern that is not understood.
    """
    parts: list[Regular | None] = []
    notes += unknown_format_rows(schema, place)
    if "minLength" in schema or "maxLength" in schema:
        parts.append(_length(schema, place, documents))
    if "pattern" in schema:
        parts.append(pattern_language(schema["pattern"], "pattern", place, documents, notes, negated=negated))
    if "format" in schema:
        format_language = _format(schema["format"], place, notes, negated)
        parts += [format_language] if format_language is not None else []
    return parts


def _length(schema: Mapping[str, Any], place: Place, documents: Documents) -> Regular:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    limit = documents.limits.literal
    if least > limit:
        raise SchemaError(
            f"strings of at least {least} characters, the limit 'literal' is {limit}",
            pointer=place.pointer,
            keyword="minLength",
            hint="ask for shorter strings",
        )
    if most is not None and most < least:
        return NONE
    if most is not None and most > 2**31:
        most = None  # no output is that long
    return rep(ANY, least, most)


def pattern_language(
    pattern: str,
    keyword: str,
    place: Place,
    documents: Documents,
    notes: list[ReportRow],
    *,
    negated: bool = False,
) -> Regular | None:
    """The strings in which a pattern matches, for every reader (``negated``: for some); None, with a note, if that is
    not regular.
    """
    try:
        matched = language(pattern, negated=negated)
    except InvalidPattern as error:
        raise SchemaError(
            f"the pattern {_shown(pattern)} is not a regular expression: {error}",
            pointer=place.pointer,
            keyword=keyword,
            expected="a pattern of ECMA-262",
        ) from None
    except NotRegular as error:
        notes.append(ReportRow(place.pointer, keyword, Outcome.RELAXED, f"not enforced: {error}"))
        return None
    size = expanded_size(matched)
    if size > documents.limits.regex:
        raise SchemaError(
            f"the pattern {_shown(pattern)} with its repeats written out has {size} characters, "
            f"the limit 'regex' is {documents.limits.regex}",
            pointer=place.pointer,
            keyword=keyword,
            hint="use smaller repeats",
        )
    if is_costly(neg(matched) if negated else matched):
        reason = "not enforced: its counted repeats overlap with their neighbours, which multiplies the lexer's states"
        notes.append(ReportRow(place.pointer, keyword, Outcome.RELAXED, reason))
        return None
    if "$" in pattern and (negated or "(?!" in pattern or "(?<!" in pattern):
        notes.append(ReportRow(place.pointer, keyword, Outcome.NARROWED, _NEWLINE))
    notes.extend(pattern_reading_rows(pattern, keyword, place, negated=negated))
    return matched


def pattern_reading_rows(pattern: str, keyword: str, place: Place, *, negated: bool) -> Iterator[ReportRow]:
    """Rows for a pattern that validators may read otherwise."""
    reason = disputed(pattern)
    if reason:
        yield ReportRow(place.pointer, keyword, Outcome.NARROWED, reason)
        if negated or may_match_less(pattern):
            yield ReportRow(place.pointer, keyword, Outcome.RELAXED, reason)


_NEWLINE = "where it is forbidden, `$` also matches before a final newline, as in Python's validator"


def _format(name: str, place: Place, notes: list[ReportRow], negated: bool) -> Regular | None:
    """The language of a format, None if it requires nothing."""
    source = FORMATS.get(name)
    if source is None:
        return None
    early = later_format_reason(name, place.dialect)
    if early and negated:
        reason = f"{place.dialect.name} has no such format: an annotation, not enforced here"
        notes.append(ReportRow(place.pointer, "format", Outcome.EXACT, reason))
        return None  # as an annotation it cannot be broken
    reason = source.outer_reason if negated else source.reason
    notes.extend(ReportRow(place.pointer, "format", Outcome.NARROWED, why) for why in (early, reason) if why)
    return source.outer_language if negated else source.language


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")
