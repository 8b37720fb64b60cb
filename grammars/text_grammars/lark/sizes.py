"""Compute and check the size of a grammar with all names in it expanded, without expanding them.

Each definition's size is computed once and used wherever its name occurs, so a grammar that doubles with every
definition is measured in linear time.  The engine would expand it, or be forced to write a text without end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from grammars.regular.languages import Regular
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import approximate_language
from grammars.text_grammars.lark.ast import (
    AltExpr,
    AndExpr,
    CharRange,
    Definition,
    Expr,
    LarkGrammar,
    Literal,
    Name,
    Regexp,
    Repeated,
    SeqExpr,
    SourcePlace,
    WhenExpr,
    is_lexeme,
)
from grammars.text_grammars.lark.graph import components, uses_of
from special_tokens.errors import GrammarError

__all__ = [
    "MAX_LEAST_BYTES",
    "MAX_LEAST_LEXEMES",
    "MAX_OPTIONAL",
    "MAX_PARTS",
    "LexemeSize",
    "check_pattern",
    "check_sizes",
    "check_term",
    "terminal_sizes",
]

#: Parts of a lexeme once its terminals are expanded; a repeat counts once.  200 that name the next twice: 2**200.
MAX_PARTS = 200_000
#: Consecutive parts of a lexeme that may be empty: the engine's work grows with their square (4,096 take 0.6 s, 8,192
#: are refused).
MAX_OPTIONAL = 2_000
#: Bytes of a lexeme's shortest text; the engine's work at its first byte grows with them (200,000 take 0.3 s).
MAX_LEAST_BYTES = 200_000
#: Lexemes of the shortest text of a part: the engine writes forced ones at once and fails at 50,000.
MAX_LEAST_LEXEMES = 20_000

_MAX_ROUNDS = 50
_SMALLER = "use fewer or smaller repeats"


@dataclass(frozen=True, slots=True)
class LexemeSize:
    """The size of one expanded lexeme: ``parts``, bytes of its shortest text, consecutive parts that may be empty."""

    parts: int
    min_bytes: int = 0
    optional_run: int = 0


# -- lexemes


def check_pattern(pattern: str, flags: str = "", *, place: str = "") -> None:
    """Raise `GrammarError` for a regular expression past a limit, `InvalidRegex` for an invalid one."""
    check_term(approximate_language(pattern, flags), place=place)


def check_term(term: Regular, *, place: str = "") -> None:
    """Raise `GrammarError` for the language of a pattern that is past a limit."""
    _check(_term_size(term), "the pattern", place=place)


def _check(size: LexemeSize, what: str, at: SourcePlace = (0, 0), place: str = "") -> None:
    long_run, long = "has too many consecutive parts that may be empty", f"the shortest text of {what} is too long"
    for count, most, unit, problem, hint in (
        (size.parts, MAX_PARTS, "parts", f"{what} is too large when expanded", "split it"),
        (size.optional_run, MAX_OPTIONAL, "parts", f"{what} {long_run}", "use fewer optional parts"),
        (size.min_bytes, MAX_LEAST_BYTES, "bytes", long, _SMALLER),
    ):
        if count > most:
            raise GrammarError(f"{problem}{_count_suffix(count)}", line=at[0], column=at[1], place=place,
                               expected=f"at most {most} {unit}", hint=hint)  # fmt: skip


def _count_suffix(number: int) -> str:
    return f": {number}" if number < 10**15 else ""


@lru_cache(maxsize=5_000)
def _term_size(term: Regular) -> LexemeSize:
    """Return the size of a regular language's term."""
    args = term.args
    match term.op:
        case "chars":
            return LexemeSize(1, len(chr(args[0][0]).encode("utf-8", "surrogatepass")))
        case "words":
            return LexemeSize(len(args), min(len(word.encode("utf-8", "surrogatepass")) for word in args))
        case "cat":
            return _sequence_size([_term_size(part) for part in args], [part.nullable for part in args])
        case "alt":
            return _union_size([_term_size(part) for part in args])
        case "and":
            return _intersection_size([_term_size(part) for part in args])
        case "not":
            inner = _term_size(args[0])
            return LexemeSize(inner.parts, 0, inner.optional_run)
    body, least, _ = args
    inner = _term_size(body)
    return LexemeSize(inner.parts, inner.min_bytes * least, inner.optional_run)


def _sequence_size(sizes: list[LexemeSize], may_be_empty: list[bool]) -> LexemeSize:
    longest = run = 0
    for size, empty in zip(sizes, may_be_empty, strict=True):
        run = run + max(size.optional_run, 1) if empty else 0
        longest = max(longest, run, size.optional_run)
    return LexemeSize(sum(size.parts for size in sizes), sum(size.min_bytes for size in sizes), longest)


def _union_size(sizes: list[LexemeSize]) -> LexemeSize:
    min_bytes = min((size.min_bytes for size in sizes), default=0)
    optional_run = max((size.optional_run for size in sizes), default=0)
    return LexemeSize(sum(size.parts for size in sizes), min_bytes, optional_run)


def _intersection_size(sizes: list[LexemeSize]) -> LexemeSize:
    min_bytes = max((size.min_bytes for size in sizes), default=0)
    return LexemeSize(sum(size.parts for size in sizes), min_bytes, sum(size.optional_run for size in sizes))


def _lexeme_size(expr: Expr, terminals: Mapping[str, LexemeSize]) -> LexemeSize:
    """Return the size of an expression inside a lexeme."""

    def size_of(inner: Expr) -> LexemeSize:
        return _lexeme_size(inner, terminals)

    match expr:
        case Literal(text=text):
            return LexemeSize(1, len(text.encode("utf-8", "surrogatepass")))
        case CharRange(first=first):
            return LexemeSize(1, len(first.encode("utf-8", "surrogatepass")))
        case Regexp(regex=regex, flags=flags):
            try:
                return _term_size(approximate_language(regex, flags))
            except InvalidRegex:  # refused elsewhere, with its place
                return LexemeSize(1)
        case Name(name=name):
            return terminals.get(name, LexemeSize(1))
        case SeqExpr(parts=parts):
            sizes = list(map(size_of, parts))
            return _sequence_size(sizes, [size.min_bytes == 0 for size in sizes])
        case AltExpr(options=options):
            return _union_size(list(map(size_of, options)))
        case AndExpr(parts=parts):
            return _intersection_size(list(map(size_of, parts)))
        case Repeated(body=body, least=least):
            size = size_of(body)
            return LexemeSize(size.parts, size.min_bytes * least, size.optional_run)
    return LexemeSize(1)


# -- grammars


def check_sizes(source: LarkGrammar) -> None:
    """Raise `GrammarError` with line and column for a lexeme or a rule that is too large when expanded.

    Terminals must not be recursive.
    """
    _check_rules(source, _check_terminals(source))


def terminal_sizes(definitions: Mapping[str, Definition]) -> dict[str, LexemeSize]:
    """Return the sizes of definitions as terminals, in an order in which each follows those that it uses."""
    sizes: dict[str, LexemeSize] = {}
    for group in components(uses_of(definitions.values())):
        for name in group:
            sizes[name] = _lexeme_size(definitions[name].body, sizes)
    return sizes


def _check_terminals(source: LarkGrammar) -> dict[str, LexemeSize]:
    terminals = {d.name: d for d in source.definitions if d.is_terminal}
    sizes = terminal_sizes(terminals)
    for name, size in sizes.items():
        _check(size, f"the terminal {name}", terminals[name].at)
    for ignore in source.ignores:
        _check(_lexeme_size(ignore.body, sizes), "what is ignored", ignore.at)
    return sizes


def _check_rules(source: LarkGrammar, terminals: Mapping[str, LexemeSize]) -> None:
    """Raise `GrammarError` for a part of a rule whose shortest text has too many lexemes.

    The counts of the rules' shortest texts are decreased until they are stable; after `_MAX_ROUNDS` without a fixed
    point, the grammar is left to the engine.
    """
    rules = {d.name: d for d in source.definitions if not d.is_terminal}
    suffixed = {d.name for d in rules.values() if any(a.name in ("lazy", "suffix") for a in d.attributes)}
    leasts: dict[str, int] = {}
    lexemes: dict[Expr, int] = {}

    def lexeme(expr: Expr, at: SourcePlace) -> int:
        if expr not in lexemes:
            size = _lexeme_size(expr, terminals)
            _check(size, "this lexeme", at)
            lexemes[expr] = int(size.min_bytes > 0)
        return lexemes[expr]

    def min_lexemes(expr: Expr, rule: Definition) -> int | None:
        """Return the number of lexemes of the shortest text; None while it is unknown."""
        if is_lexeme(expr):
            return lexeme(expr, getattr(expr, "at", rule.at))
        match expr:
            case Name(name=name):
                return leasts.get(name) if name in rules else 1
            case SeqExpr(parts=parts):
                sizes = [min_lexemes(part, rule) for part in parts]
                return None if None in sizes else sum(size for size in sizes if size is not None)
            case AltExpr(options=options):
                option_sizes = [size for size in (min_lexemes(option, rule) for option in options) if size is not None]
                return min(option_sizes, default=None)
            case Repeated(body=body, least=least):
                size = min_lexemes(body, rule)
                return 0 if not least else None if size is None else size * least
            case WhenExpr(body=body):
                return min_lexemes(body, rule)
            case Literal():
                return 0
        return 1

    order = [name for group in components(uses_of(rules.values())) for name in group]
    for name in suffixed:
        _check(_lexeme_size(rules[name].body, terminals), f"the lexeme {name}", rules[name].at)
    for _ in range(_MAX_ROUNDS):
        before = dict(leasts)
        for name in order:
            total = 1 if name in suffixed else min_lexemes(rules[name].body, rules[name])
            if total is not None:
                leasts[name] = min(total, leasts.get(name, total))
        if leasts == before:
            break
    else:
        return
    for name in order:
        _refuse_long(rules[name].body, rules[name], min_lexemes)


def _refuse_long(expr: Expr, rule: Definition, min_lexemes: Callable[[Expr, Definition], int | None]) -> None:
    """Raise `GrammarError` for an innermost part of a rule whose shortest text has too many lexemes."""
    inner: tuple[Expr, ...] = ()
    match expr:
        case SeqExpr(parts=parts) | AltExpr(options=parts):
            inner = parts
        case Repeated(body=body) | WhenExpr(body=body):
            inner = (body,)
    for part in inner:
        _refuse_long(part, rule, min_lexemes)
    least = min_lexemes(expr, rule) or 0
    if least > MAX_LEAST_LEXEMES:
        line, column = getattr(expr, "at", rule.at)
        raise GrammarError(f"the shortest text of a part of {rule.name!r} is too long{_count_suffix(least)}", line=line,
                           column=column, expected=f"at most {MAX_LEAST_LEXEMES} lexemes", hint=_SMALLER)  # fmt: skip
