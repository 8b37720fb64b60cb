"""``minLength``, ``maxLength``, ``pattern`` and ``format``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

from grammars.regular.syntax.character_classes import has_disputed_classes
from grammars.json_schema.document.documents import Documents
from grammars.regular.syntax.ecma import InvalidPattern, NotRegular, has_borders, has_foreign_borders, language
from grammars.regular.syntax.ecma_parser import has_disputed_case
from grammars.regular.lexer_cost import bearable, num_floating
from grammars.json_schema.document.string_formats import FORMATS, early_format, ignored_format
from grammars.json_schema.document.places import Place
from grammars.regular.languages import ALL, ANY, EPS, NONE, Regular, chars, disjoint, inter, neg, remembered, rep
from grammars.values.report import Outcome, ReportRow
from special_tokens.errors import SchemaError

__all__ = [
    "KEYWORDS",
    "allow",
    "deny",
    "ignored_rows",
    "is_costly",
    "pattern_language",
    "reading_rows",
    "readings",
    "written_out",
]

_MAX_STATES = 1_000  # product of nested counts that may overlap with what follows

KEYWORDS = ("minLength", "maxLength", "pattern", "format")


def allow(
    schema: Mapping[str, Any], place: Place, documents: Documents, notes: list[ReportRow], *, widest: bool = False
) -> Regular:
    """The strings that satisfy the keywords; what has no regular language is noted as relaxed.

    ``widest``: those that some validator takes for such, not those that all do.
    """
    parts = _parts(schema, place, documents, notes, negated=widest, widest=widest)
    return inter(*parts) if parts else ALL


def deny(
    schema: Mapping[str, Any], place: Place, documents: Documents, notes: list[ReportRow], *, widest: bool = False
) -> Regular | None:
    """The strings that break at least one keyword (or some of them, with a note); None when none can be broken.

    ``widest``: as for `allow`.
    """
    own: list[ReportRow] = []
    parts = _parts(schema, place, documents, own, negated=not widest, widest=widest)
    notes += own
    if any(row.outcome is Outcome.RELAXED and row.reason != _BORDERS for row in own):
        return ALL  # what is not understood may be broken by any string
    return neg(inter(*parts)) if parts else None


def ignored_rows(schema: Mapping[str, Any], place: Place) -> list[ReportRow]:
    """What to say of a format that nothing is known of; those of numbers are among them."""
    name = schema.get("format")
    if not isinstance(name, str) or name in FORMATS:
        return []
    return [ReportRow(place.pointer, "format", Outcome.EXACT, ignored_format(name))]


def _parts(
    schema: Mapping[str, Any],
    place: Place,
    documents: Documents,
    notes: list[ReportRow],
    *,
    negated: bool = False,
    widest: bool = False,
) -> list[Regular]:
    """The language of each keyword: never wider than the keyword, or never narrower where it is to be negated."""
    parts: list[Regular] = []
    notes += ignored_rows(schema, place)
    if "minLength" in schema or "maxLength" in schema:
        parts.append(_length(schema, place, documents))
    if "pattern" in schema:
        found = (_proving if widest else pattern_language)(
            schema["pattern"], "pattern", place, documents, notes, wide=negated
        )
        parts += [found] if found is not None else []
    if "format" in schema:
        found = _format(schema["format"], place, documents, notes, negated, inter(*parts) if parts else ALL)
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
    pattern: str,
    keyword: str,
    place: Place,
    documents: Documents,
    notes: list[ReportRow],
    *,
    wide: bool | None = None,
) -> Regular | None:
    """The strings in which a pattern is found (``wide``: see `language`); None, with a note, when it cannot be said."""
    try:
        found = ends = language(pattern, wide)
        if "$" in pattern and wide is not None:
            ends = language(pattern, wide, final_newline=False)
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
    is_last_line = found != ends and not num_floating(ends)  # else more ends would multiply the states of counts
    row = _NEWLINE if is_last_line else _END if found != ends else None
    found = found if is_last_line else ends
    written = neg(found) if wide else found
    borne = ALL if is_costly(written) else bearable(written)
    if borne not in (written, NONE):
        reason = "not enforced: its counted repeats overlap with what is beside them, which multiplies their states"
        is_kept = not wide and borne != ALL and borne.plain  # of others nobody knows what is left to the engine
        notes.append(ReportRow(place.pointer, keyword, Outcome.RELAXED, f"not all {reason[4:]}" if is_kept else reason))
        if not is_kept:
            return None
    elif row is not None:
        notes.append(ReportRow(place.pointer, keyword, *row))
    notes.extend(reading_rows(pattern, keyword, place))
    return found if borne == NONE or wide else borne


def _proving(
    pattern: str, keyword: str, place: Place, documents: Documents, notes: list[ReportRow], *, wide: bool
) -> Regular | None:
    """As `pattern_language`, for proofs: the engine does not see it, and what is not known well is not known."""
    try:
        found = language(pattern, wide)
        if not has_borders(pattern) and written_out(found) <= documents.limits.regex:
            return found
    except NotRegular:
        pass
    notes.append(ReportRow(place.pointer, keyword, Outcome.RELAXED, "not known well enough to prove something"))
    return None


def reading_rows(pattern: str, keyword: str, place: Place) -> Iterator[ReportRow]:
    """What to say of a pattern that readers take for others.  Raises `NotRegular`.

    Borders of words are more and less than validators take; of the rest what is written is what all of them take.
    """
    if has_borders(pattern):
        yield ReportRow(place.pointer, keyword, Outcome.NARROWED, _BORDERS)
    if has_foreign_borders(pattern):
        yield ReportRow(place.pointer, keyword, Outcome.RELAXED, _BORDERS)
    if has_disputed_classes(pattern):
        yield ReportRow(place.pointer, keyword, Outcome.NARROWED, _DISPUTED)
    if has_disputed_case(pattern):
        yield ReportRow(place.pointer, keyword, Outcome.NARROWED, _CASE)


@remembered(4_096)
def readings(pattern: str) -> tuple[Regular, Regular]:
    """The strings in which every reading of a pattern finds it, and those in which any does (see `language`).

    It is for keys, of which nobody means one with a newline at its end: ``$`` is the end there, as ECMA-262 has it.
    Raises `InvalidPattern` or `NotRegular`.
    """
    sure, maybe = (language(pattern, wide, final_newline=False) for wide in (False, True))
    if sure == maybe or disjoint(maybe, neg(sure)):
        sure = maybe = language(pattern)
    return sure, maybe


_NEWLINE = (
    Outcome.NARROWED,
    "negated, `$` is found before a newline at the end as well, as Python's validator has it",
)
_END = (
    Outcome.EXACT,
    "negated, `$` is the end only, as ECMA-262 has it: Python's validator finds it before a newline at the end as well",
)
_BORDERS = "borders of words are those of ECMA-262, by ASCII letters: validators know other letters too"
_DISPUTED = "beside look-around \\w, \\d and \\s leave out what Unicode adds or takes away"
_CASE = "letters that not all readers fold alike (i and the Turkish ones) are alike only where that forbids them"


def written_out(term: Regular) -> int:
    """How many characters a term has when its repeats are written out: what it costs the engine."""
    match term.op:
        case "chars":
            return 1
        case "words":
            return sum(map(len, term.args))
        case "rep":
            body, least, most = cast(tuple[Regular, int, int | None], term.args)
            return written_out(body) * max(1, least if most is None else most)
    return sum(written_out(p) for p in term.args) + 1


def is_costly(term: Regular, around: int = 1) -> bool:
    """Does a counted repeat, itself repeated, share characters with what follows it?

    In ``(.{1,63}\\.){1,127}`` every dot may end the inner repeat or not: the engine's states multiply until its
    limits end the generation.  ``around`` is the product of the counts outside.
    """
    if term.op in ("chars", "words"):
        return False
    if term.op == "rep":
        body, least, most = term.args
        return is_costly(body, around * max(1, least if most is None else most))
    if term.op == "cat":
        for part, after in pairwise((*term.args, EPS)):
            if part.op == "rep" and part.args[1] != part.args[2]:
                count = part.args[2] if part.args[2] is not None else 1
                if count > 4 and around * count > _MAX_STATES and not disjoint(part.args[0], _first(after)):
                    return True
    return any(is_costly(part, around) for part in term.args)


def _first(term: Regular) -> Regular:
    """The first characters of a term (roughly: of the first part that is not a choice)."""
    match term.op:
        case "words":
            return chars([(ord(w[0]), ord(w[0])) for w in term.args if w])
        case "rep":
            return _first(term.args[0])
        case "cat" if term.args:
            return _first(term.args[0])
        case "chars":
            return term
    return ANY if term != EPS else NONE


def _format(
    name: str, place: Place, documents: Documents, notes: list[ReportRow], negated: bool, beside: Regular
) -> Regular | None:
    """The language of a format, or None where it asks for nothing; ``beside``: what the other keywords ask for."""
    source = FORMATS.get(name)
    if source is None:
        return None
    early = early_format(name, place.dialect)
    documents.met_early = documents.met_early or bool(early)
    if early and (negated or not documents.early_formats or disjoint(source.language, beside)):
        reason = f"{place.dialect.name} has no such format: an annotation, not enforced here"
        notes.append(ReportRow(place.pointer, "format", Outcome.EXACT, reason))
        return None  # nothing breaks it, and what contradicts it is valid
    reason = source.outer_reason if negated else source.reason
    notes.extend(ReportRow(place.pointer, "format", Outcome.NARROWED, why) for why in (early, reason) if why)
    return source.outer_language if negated else source.language


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")
