"""Reasoning blocks as Lark: the shipped levels, and templates of callers.

A template's ``start`` begins with the opening marker, ends with the closing one and has the grammar of the reasoning
between them.  Markers are named by role, never by id: ``$REASONING_START`` and ``$REASONING_END`` with the white space
that the model's format puts around them, ``$START_ID`` and ``$END_ID`` bare.  In the shipped files ``$(150)`` is a
limit that other levels scale.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources

from grammars.regular.exclusion import exclusion_patterns
from grammars.regular.terms import Regular
from grammars.regular.terms import text as word
from grammars.text_grammars.lark.ast import (
    AndExpr,
    Definition,
    Expr,
    LarkGrammar,
    Literal,
    Name,
    NotExpr,
    Regexp,
    RoleMark,
    SeqExpr,
    error_at,
    map_lexemes,
    walk,
)
from grammars.text_grammars.lark.check import check
from grammars.text_grammars.lark.convert import Schemas, check_ends, located, parse_source
from grammars.text_grammars.lark.write import write
from special_tokens.errors import GrammarError

__all__ = ["SHIPPED", "Template", "custom_template", "shipped_template"]

#: Level -> file under ``templates/`` and the factor of its limits.
SHIPPED = {
    "minimal": ("low", 0.5),
    "low": ("low", 1.0),
    "medium": ("medium", 1.0),
    "high": ("high", 1.0),
    "xhigh": ("high", 2.0),
    "max": ("high", 2.0),
    "chain_of_thought": ("chain_of_thought", 1.0),
}

_OPENING = {"REASONING_START": True, "START_ID": False}  # role -> whether the format's white space frames it
_CLOSING = {"REASONING_END": True, "END_ID": False}
_ROLES = frozenset((*_OPENING, *_CLOSING))
_LIMIT = re.compile(r"\$\(([0-9]+)\)")


@dataclass(frozen=True, slots=True)
class Template:
    """The inside of a reasoning block as a grammar.

    ``body`` is Lark.  ``after_start`` and ``before_end`` are the white space inside the block next to the markers,
    ``lead`` that after the closing one; None means the format's own.
    """

    body: str
    after_start: str | None = None
    before_end: str | None = None
    lead: str | None = None


@lru_cache(maxsize=256)
def shipped_template(level: str, *, end_text: str | None, before_end: str) -> Template:
    """Return the template of a level.

    ``end_text`` is the closing marker where it is text and no token (then reasoning may not contain it),
    ``before_end`` the white space in front of it.
    """
    file, scale = SHIPPED[level]
    folder = resources.files("grammars.reasoning") / "templates"
    text = (folder / f"{file}.lark").read_text(encoding="utf-8")
    text = _LIMIT.sub(lambda limit: str(round(int(limit[1]) * scale)), text)
    source = parse_source(text)
    return _template(source, [*_tags(source), *([end_text] if end_text else [])], end_text, before_end)


def custom_template(text: str, *, end_text: str | None, before_end: str, schemas: Schemas) -> Template:
    """Return the template of a caller's Lark (the text after ``custom:``).

    Raises `GrammarError` with line and column for a text that is not Lark, names an unknown role, has no marker at one
    of its ends, or can never end.
    """
    try:
        source = _renamed(parse_source(text))
        return _template(source, [end_text] if end_text else [], end_text, before_end, schemas)
    except GrammarError as error:
        raise located(error, "reasoning_effort") from None


def _renamed(source: LarkGrammar) -> LarkGrammar:
    """The template with its top rule called ``start`` where it is ``reasoning_block``, as some servers call it."""
    names = {definition.name for definition in source.definitions}
    if "start" in names or "reasoning_block" not in names:
        return source
    definitions = tuple(replace(d, name="start") if d.name == "reasoning_block" else d for d in source.definitions)
    return replace(source, definitions=definitions)


def _tags(source: LarkGrammar) -> list[str]:
    """The tags that a shipped template writes; free text that contained one would look like another phase."""
    texts = [expr.text for expr in source.walk() if isinstance(expr, Literal)]  # suffixes are among them
    names = {name for text in texts for name in re.findall(r"</?([A-Z_]+)>", text)}
    return sorted(tag for name in names for tag in (f"<{name}>", f"</{name}>"))


def _template(
    source: LarkGrammar, barred: Sequence[str], end_text: str | None, before_end: str, schemas: Schemas | None = None
) -> Template:
    check(source, roles=_ROLES)
    source = schemas.compiled(source) if schemas else source
    opening, before, middle, closing, lead = _between_markers(source)
    body = _with_start(source, SeqExpr(middle))
    framed = _CLOSING[closing]
    then = _then(before_end if framed else "", end_text)
    written = body
    if barred:
        body = _without_text(body, barred)
    try:
        check_ends(body, then=then)
    except GrammarError:
        check_ends(written, then=then)  # the same in the caller's own words, with its place
        raise
    return Template(
        write(body),
        after_start=None if _OPENING[opening] else before,
        before_end=None if framed else "",
        lead=None if framed else lead,
    )


def _between_markers(source: LarkGrammar) -> tuple[str, str, tuple[Expr, ...], str, str]:
    """Opening role, white space after it, the parts between the markers, closing role, white space after it."""
    start = source.by_name()["start"]
    parts = list(start.body.parts) if isinstance(start.body, SeqExpr) else [start.body]
    lead = ""
    while parts and isinstance(last_part := parts[-1], Literal) and _is_blank(last_part):
        lead = last_part.text + lead
        parts.pop()
    first, last = (parts[0], parts[-1]) if parts else (None, None)
    if not isinstance(first, RoleMark) or first.name not in _OPENING:
        raise error_at(start.at, "a template begins with the opening marker", expected="start: $START_ID ... $END_ID")
    if not isinstance(last, RoleMark) or last.name not in _CLOSING:
        raise error_at(start.at, "a template ends with the closing marker", expected="start: $START_ID ... $END_ID")
    inside = parts[1:-1]
    before = ""
    while not _OPENING[first.name] and len(inside) > 1 and isinstance(head := inside[0], Literal) and _is_blank(head):
        before += head.text
        inside = inside[1:]
    middle = tuple(inside)
    inner = [expr for part in middle for expr in walk(part)]
    inner += [expr for d in source.definitions if d is not start for expr in walk(d.body)]
    for expr in inner:
        if isinstance(expr, RoleMark) or (isinstance(expr, Name) and expr.name == "start"):
            shown = f"${expr.name}" if isinstance(expr, RoleMark) else "the rule start"
            expected = "markers at its beginning and end only"
            raise error_at(expr.at, f"{shown} occurs inside the block", expected=expected)
    if not middle:
        raise error_at(start.at, "there is nothing between the markers", expected="effort none for no reasoning")
    return first.name, before, middle, last.name, lead


def _is_blank(literal: Literal) -> bool:
    return not literal.text.strip()


def _with_start(source: LarkGrammar, body: Expr) -> LarkGrammar:
    definitions = tuple(replace(d, body=body) if d.name == "start" else d for d in source.definitions)
    return replace(source, definitions=definitions)


def _then(before: str, end_text: str | None) -> Regular | None:
    """The text that follows the body; None for a token, which ends any lexeme."""
    follows = before + (end_text or "")
    return word(follows) if follows else None


def _without_text(source: LarkGrammar, words: Sequence[str]) -> LarkGrammar:
    """The grammar whose free lexemes contain none of ``words``, which would end the block early."""
    patterns = exclusion_patterns(words)
    options = "|".join(map(re.escape, words))
    barred: list[Expr] = [Regexp(pattern) for pattern in patterns or ()]
    if not barred:
        barred = [NotExpr(Regexp(f"(?s:.*)(?:{options})(?s:.*)"))]
    extra = [Definition("NO_END", barred[0] if len(barred) == 1 else AndExpr(tuple(barred)))]

    def keep(expr: Expr) -> Expr:
        if isinstance(expr, Literal):
            return expr
        name = f"FREE_{len(extra)}"
        extra.append(Definition(name, AndExpr((expr, Name("NO_END")))))
        return Name(name)

    definitions = tuple(
        d if d.is_terminal else replace(d, body=_barred(d.body) if d.is_lexeme_rule else map_lexemes(d.body, keep))
        for d in source.definitions
    )
    taken = {d.name for d in definitions} & {d.name for d in extra}
    if taken:
        raise GrammarError(f"the name {min(taken)} is taken", hint="call the terminal something else")
    return replace(source, definitions=(*definitions, *extra))


def _barred(body: Expr) -> Expr:
    return AndExpr((body, Name("NO_END")))
