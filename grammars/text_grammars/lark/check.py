"""Checks an untrusted Lark grammar: names, kinds and sizes, and that it references nothing outside its own text.

The engine accepts token syntax from any caller, so a client could write a system turn; a deep chain of rules overflows
its stack and ends the process; and it compiles rules that can never end.  All of these are refused here, with line and
column.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container

from grammars.regular.languages import lengths
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import LooksAround, NotTranslated, approximate_language, language
from grammars.regular.terms import Regular
from grammars.text_grammars.lark.ast import (
    LEXEME_ATTRIBUTES,
    AndExpr,
    Attribute,
    Definition,
    Expr,
    JsonExpr,
    LarkGrammar,
    Name,
    Refused,
    RegexExt,
    Regexp,
    RoleMark,
    SourcePlace,
    error_at,
    parts_of,
    walk,
)
from grammars.text_grammars.lark.graph import RuleProperty, components, reach, uses_of
from special_tokens.errors import GrammarError, shown

__all__ = [
    "MAX_ATOMS",
    "MAX_BYTES",
    "MAX_DEFINITIONS",
    "MAX_LEAST_LENGTH",
    "MAX_NESTING",
    "check",
    "check_length",
    "check_names",
    "check_shape",
    "check_size",
    "having_text",
]

#: A chain of this many rules still compiles on the engine's thread (about 2,600 overflow an 8 MB stack).
MAX_DEFINITIONS = 2_000
MAX_BYTES = 256 * 1024
#: Literals, names and operators; an alternation of 50,000 literals takes the engine 18 s.
MAX_ATOMS = 20_000
#: The engine refuses about 30 nested parentheses; those around a single item are dropped when we write the grammar.
MAX_NESTING = 25
#: Characters of a lexeme's shortest text: the engine's work at its first byte grows with them (200,000 take 0.3 s).
MAX_LEAST_LENGTH = 200_000

_ATTRIBUTES = (*LEXEME_ATTRIBUTES, "capture")
#: Attributes of the engine that break rollback, alternatives or sampling; only a trusted caller may set them.
_TRUSTED_ATTRIBUTES = {
    "max_tokens": "use max_tokens of the request",
    "stop": "use suffix=, or stop of the request",
    "stop_capture": "use suffix=",
    "temperature": "use temperature of the request",
}


#: A regex up to its first lazy quantifier; escapes and classes are passed over, and "(?" begins a group.
_LAZY = re.compile(
    r"(?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\??|(?!(?:[*+?]|\{[0-9,]+\})\?)[^\\\[(])*(?P<quantifier>(?:[*+?]|\{[0-9,]+\})\?)",
    re.DOTALL,
)


def check_size(text: str) -> None:
    """Refuse a text that is too large to parse."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise GrammarError(f"the grammar has {size} bytes", expected=f"at most {MAX_BYTES}")


def check(source: LarkGrammar, *, roles: frozenset[str] = frozenset()) -> None:
    """Raise `GrammarError` for the first part that an untrusted grammar must not contain.

    ``roles`` are the ``$ROLE`` marks that this grammar may use.
    """
    if not source.definitions:
        raise GrammarError("the grammar is empty", expected="a rule called start")
    check_shape(source)
    for statement in source.refused:
        raise error_at(statement.at, statement.why, hint=statement.hint)
    _check_atoms(source, roles)
    check_names(source)
    for definition in source.definitions:
        _check_definition(definition)
    for ignore in source.ignores:
        _check_greedy(ignore.body)
    _check_terminals(source)
    _check_productive(source)


def check_length(term: Regular, what: str, *, at: SourcePlace = (0, 0), place: str = "") -> None:
    """Raise `GrammarError` for a lexeme whose shortest text is too long."""
    least = lengths(term)[0]
    if least > MAX_LEAST_LENGTH:
        size = f": {least}" if least < 10**15 else ""
        message, expected = f"the shortest text of {what} is too long{size}", f"at most {MAX_LEAST_LENGTH} characters"
        raise error_at(at, message, expected=expected, hint="use fewer or smaller repeats", place=place)


def check_shape(source: LarkGrammar) -> None:
    """Refuse a grammar with too many or too deeply nested parts; the other checks rely on this."""
    if len(source.definitions) > MAX_DEFINITIONS:
        raise GrammarError(f"the grammar has {len(source.definitions)} rules", expected=f"at most {MAX_DEFINITIONS}")
    for number, _ in enumerate(source.walk()):
        if number > MAX_ATOMS:
            raise GrammarError("the grammar is too large", expected=f"at most {MAX_ATOMS} literals and names")
    for definition in source.definitions:
        _check_nesting(definition.body, definition.at)
        for attribute in definition.attributes:
            if attribute.value is not None and not isinstance(attribute.value, str):
                _check_nesting(attribute.value, attribute.at)
    for ignore in source.ignores:
        _check_nesting(ignore.body, ignore.at)


def _check_atoms(source: LarkGrammar, roles: frozenset[str]) -> None:
    for expr in source.walk():
        match expr:
            case Refused(why=why, hint=hint, at=at):
                raise error_at(at, why, hint=hint)
            case RoleMark(name=name, at=at) if name not in roles:
                roles_known = ", ".join(f"${role}" for role in sorted(roles))
                if not roles_known:
                    raise error_at(at, f"${name} is not Lark", hint="roles are allowed in reasoning templates only")
                raise error_at(at, f"there is no role ${name}", expected=roles_known)
            case RegexExt(json=body, at=at) if not body.startswith("{"):
                raise error_at(at, "%regex takes an object", hint='write %regex {"substring_words": "..."}')
            case JsonExpr(json=body, at=at) if not body.startswith(("{", "true", "false")):
                raise error_at(at, f"%json takes a schema, not {body[:40]}", hint='write %json {"type": ...}')
            case Regexp(regex=regex, flags=flags, at=at):
                _check_regex(regex, flags, at)


def _check_regex(regex: str, flags: str, at: SourcePlace) -> None:
    try:
        check_length(approximate_language(regex, flags), f"/{regex[:40]}/", at=at)
        language(regex, flags)
    except LooksAround as error:
        what = f"/{regex[:40]}/ has {error}, which lexemes cannot have"
        hint = "the lexer takes the longest match and looks around nothing"
        raise error_at(at, what, expected="a regex of Rust without it", hint=hint) from None
    except NotTranslated:
        pass  # the engine alone knows its language: a script, another flag, a very long pattern
    except InvalidRegex as error:
        fault = at[0], at[1] + 1 + error.at
        raise error_at(fault, f"not a regular expression: {error}", expected="a regex of Rust") from None


def _check_nesting(body: Expr, at: SourcePlace) -> None:
    stack: list[tuple[Expr, int]] = [(body, 0)]
    while stack:
        expr, depth = stack.pop()
        if depth > MAX_NESTING:
            raise error_at(at, f"parentheses are nested more than {MAX_NESTING} deep", hint="name the inner parts")
        stack.extend((child, depth + 1) for child in parts_of(expr))


# -- names


def check_names(source: LarkGrammar, begin: str = "start", how: str = "start: ...") -> None:
    """Raise `GrammarError` for a name that is defined twice, not at all, or missing: that of the rule ``begin``."""
    defined: dict[str, Definition] = {}
    for definition in source.definitions:
        if definition.name in defined:
            first = defined[definition.name]
            hint = f"first in line {first.at[0]}"
            if any(getattr(one.body, "at", None) == one.at for one in (first, definition)):  # an import
                hint += "; give what is imported another name: -> NAME"
            raise error_at(definition.at, f"{shown(definition.name)} is defined twice", hint=hint)
        defined[definition.name] = definition
    if begin not in defined:
        raise GrammarError(f"there is no rule called {begin}", expected=how)
    for expr in source.walk():
        if isinstance(expr, Name) and expr.name not in defined:
            near = difflib.get_close_matches(expr.name, defined, 1)
            hint = f"is it {shown(near[0])}?" if near else "add it"
            raise error_at(expr.at, f"{shown(expr.name)} is not defined", hint=hint)


# -- one definition


def _check_definition(definition: Definition) -> None:
    for attribute in definition.attributes:
        _check_attribute(attribute)
    if definition.is_terminal:
        if definition.attributes:
            raise error_at(definition.at, "a terminal takes no attributes", hint="use a lower-case name")
        _check_lexeme(definition.body, f"the terminal {definition.name}")
    elif definition.is_lexeme_rule:
        _check_lexeme(definition.body, f"{definition.name}, which has lazy or suffix,")
        return
    else:
        for expr in walk(definition.body):
            if isinstance(expr, AndExpr):
                raise error_at(expr.at, "& joins terminals only", hint="give it an UPPER-CASE name")
    _check_greedy(definition.body)


def _check_greedy(body: Expr) -> None:
    """Refuse lazy quantifiers, which the engine would read as greedy ones, where no attribute ends the lexeme."""
    for expr in walk(body):
        if isinstance(expr, Regexp) and (lazy := _LAZY.match(expr.regex)):
            quantifier = expr.at[0], expr.at[1] + 1 + lazy.start("quantifier")
            hint = "leave the delimiter out of its characters, or make it a rule with lazy or suffix="
            raise error_at(quantifier, f"{lazy['quantifier']} is lazy, and terminals take the longest match", hint=hint)


def _check_attribute(attribute: Attribute) -> None:
    if attribute.name in _TRUSTED_ATTRIBUTES:
        hint = _TRUSTED_ATTRIBUTES[attribute.name]
        raise error_at(attribute.at, f"{attribute.name}= is not a client's to set", hint=hint)
    if attribute.name not in _ATTRIBUTES:
        what = f"there is no attribute {shown(attribute.name)}"
        raise error_at(attribute.at, what, expected=", ".join(_ATTRIBUTES))
    if attribute.name == "lazy" and attribute.value is not None:
        raise error_at(attribute.at, "lazy takes no value", hint="write suffix= for a text that ends the rule")
    if attribute.name == "suffix":
        if attribute.value is None or isinstance(attribute.value, str):
            raise error_at(attribute.at, "suffix= needs a literal, a regex or a terminal", hint='write suffix="..."')
        _check_lexeme(attribute.value, "suffix=")


def _check_lexeme(body: Expr, what: str) -> None:
    for expr in walk(body):
        match expr:
            case Name(name=name, at=at) if not expr.is_terminal:
                hint = "only terminals, literals and regexes are allowed"
                raise error_at(at, f"{what} contains the rule {shown(name)}", hint=hint)
            case JsonExpr(at=at):
                raise error_at(at, f"{what} contains %json", hint="use it in a rule")
            case RoleMark(at=at):
                raise error_at(at, f"{what} contains a token", hint="use it in a rule")


# -- terminals and rules as graphs


def _check_terminals(source: LarkGrammar) -> None:
    """Refuse recursive terminals: a terminal is a regular expression into which those that it names are expanded."""
    uses = uses_of(definition for definition in source.definitions if definition.is_terminal)
    for group in components(uses):
        for name in group:
            again = next((used for used in uses[name].values() if used.name in group), None)
            if again is not None:
                raise error_at(again.at, f"the terminal {again.name} is made of itself", hint="use lower-case rules")


def _check_productive(source: LarkGrammar) -> None:
    """Refuse a reachable rule without a finite text: a model that enters it could never leave it."""
    rules = {d.name: d for d in source.definitions if not d.is_terminal}
    uses = uses_of(rules.values())
    has_text = having_text(source).holds
    leads_back = {name for group in components(uses) for name in group if len(group) > 1 or name in uses[name]}
    for name in reach(["start"], uses.__getitem__):
        if name in leads_back and not has_text(Name(name)):
            hint = "give it an option without itself"
            raise error_at(rules[name].at, f"the rule {shown(name)} can never end", hint=hint)


def having_text(source: LarkGrammar, endless: Container[int] = ()) -> RuleProperty:
    """Return what has a finite text; ``endless`` are the ``id`` of lexemes that have none."""
    rules = {d.name: d for d in source.definitions if not d.is_lexeme}
    return RuleProperty(rules, lambda leaf: id(leaf) not in endless)
