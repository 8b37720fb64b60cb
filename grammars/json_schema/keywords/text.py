"""``minLength``, ``maxLength``, ``pattern`` and ``format``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.json_schema.documents import Documents, Place
from grammars.json_schema.ecma import InvalidPattern, NotRegular, language
from grammars.json_schema.formats import FORMATS, ignored_format
from grammars.json_schema.regular import ALL, ANY, NONE, Regular, inter, neg, rep
from grammars.json_schema.report import Outcome, ReportRow
from special_tokens.errors import SchemaError

__all__ = ["KEYWORDS", "allow", "deny", "pattern_language"]

KEYWORDS = ("minLength", "maxLength", "pattern", "format")


def allow(schema: Mapping[str, Any], place: Place, documents: Documents, notes: list[ReportRow]) -> Regular:
    """The strings that satisfy the keywords; what has no regular language is noted as relaxed."""
    parts = _parts(schema, place, documents, notes)
    return inter(*parts) if parts else ALL


def deny(schema: Mapping[str, Any], place: Place, documents: Documents, notes: list[ReportRow]) -> Regular | None:
    """The strings that break at least one keyword; None when no keyword can be broken."""
    before = len(notes)
    parts = _parts(schema, place, documents, notes)
    if len(notes) > before:
        return ALL  # what is not understood may be broken by any string
    return neg(inter(*parts)) if parts else None


def _parts(schema: Mapping[str, Any], place: Place, documents: Documents, notes: list[ReportRow]) -> list[Regular]:
    parts: list[Regular] = []
    if "minLength" in schema or "maxLength" in schema:
        parts.append(_length(schema, place, documents))
    if "pattern" in schema:
        found = pattern_language(schema["pattern"], "pattern", place, documents, notes)
        parts += [found] if found is not None else []
    if "format" in schema:
        found = _format(schema["format"], place, notes)
        parts += [found] if found is not None else []
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
    pattern: str, keyword: str, place: Place, documents: Documents, notes: list[ReportRow]
) -> Regular | None:
    """The strings in which a pattern is found; None, with a note, when it cannot be said."""
    try:
        found = language(pattern)
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
    size = written_out(found)
    if size > documents.limits.regex:
        raise SchemaError(
            f"the pattern {_shown(pattern)} with its repeats written out has {size} characters, "
            f"the limit 'regex' is {documents.limits.regex}",
            pointer=place.pointer,
            keyword=keyword,
            hint="use smaller repeats",
        )
    return found


def written_out(term: Regular) -> int:
    """How many characters a term has when its repeats are written out: what it costs the engine."""
    match term.op:
        case "chars":
            return 1
        case "words":
            return sum(map(len, term.args))
        case "rep":
            body, least, most = term.args
            return written_out(body) * max(1, least if most is None else most)
    return sum(written_out(p) for p in term.args) + 1


def _format(name: str, place: Place, notes: list[ReportRow]) -> Regular | None:
    source = FORMATS.get(name)
    if source is None:
        notes.append(ReportRow(place.pointer, "format", Outcome.EXACT, ignored_format(name)))
        return None
    if source.reason:
        notes.append(ReportRow(place.pointer, "format", source.outcome, source.reason))
    return source.language


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")
