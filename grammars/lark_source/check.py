"""What a client's grammar may say: names, kinds, sizes, and nothing that reaches beyond its own text.

The engine would take token syntax from anyone, and a client could then write a system turn; it would follow a deep
chain of rules until the process dies; and it would compile a rule that can never end.  All of that is refused here,
with a place.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from grammars.lark_source.ast import (
    AltExpr,
    AndExpr,
    Attribute,
    Definition,
    Expr,
    GrammarRef,
    JsonExpr,
    Name,
    NotExpr,
    Place,
    RegexExt,
    Regexp,
    Repeated,
    RoleMark,
    SeqExpr,
    Source,
    TokenSyntax,
    Unsupported,
    WhenExpr,
    walk,
)
from grammars.rust_regex import InvalidRegex, NotTranslated, language
from special_tokens.errors import GrammarError

__all__ = ["COMMON", "MAX_ATOMS", "MAX_BYTES", "MAX_DEFINITIONS", "MAX_NESTING", "check", "check_size"]

#: A chain of this many rules still compiles on the engine's thread (about 2,600 overflow an 8 MB stack).
MAX_DEFINITIONS = 2_000
MAX_BYTES = 256 * 1024
#: Literals, names and operators; an alternation of 50,000 literals takes the engine 18 s.
MAX_ATOMS = 20_000
#: Parts of a terminal with the terminals that it names in it: 200 that each name the next twice would be 2**200.
MAX_WRITTEN_OUT = 200_000
#: The engine refuses about 30 nested parentheses.
MAX_NESTING = 25

#: Terminals that ``%import common.NAME`` knows (llguidance 1.9.1).
COMMON = frozenset(
    [
        "DIGIT",
        "HEXDIGIT",
        "INT",
        "SIGNED_INT",
        "DECIMAL",
        "_EXP",
        "FLOAT",
        "SIGNED_FLOAT",
        "NUMBER",
        "SIGNED_NUMBER",
        "ESCAPED_STRING",
        "LCASE_LETTER",
        "UCASE_LETTER",
        "LETTER",
        "WORD",
        "CNAME",
        "WS_INLINE",
        "WS",
        "CR",
        "LF",
        "NEWLINE",
        "SH_COMMENT",
        "CPP_COMMENT",
        "C_COMMENT",
        "SQL_COMMENT",
    ]
)

_LEXEME_ATTRIBUTES = ("lazy", "suffix")
_HARMLESS_ATTRIBUTES = ("capture",)
#: Attributes of the engine that break rollback, alternatives or sampling; only a trusted caller may set them.
_TRUSTED_ATTRIBUTES = {
    "max_tokens": "use max_tokens of the request",
    "stop": "use suffix=, or stop of the request",
    "stop_capture": "use suffix=",
    "temperature": "use temperature of the request",
}


def check_size(text: str) -> None:
    """Refuses a text that would take too long even to look at."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise GrammarError(f"the grammar has {size} bytes", expected=f"at most {MAX_BYTES}")


def check(source: Source, *, roles: frozenset[str] = frozenset(), references: frozenset[str] = frozenset()) -> None:
    """Raises `GrammarError` for the first thing that an untrusted grammar may not say.

    ``roles`` are the ``$ROLE`` marks and ``references`` the ``@names`` that this grammar may use.
    """
    if not source.definitions:
        raise GrammarError("the grammar is empty", expected="a rule called start")
    if len(source.definitions) > MAX_DEFINITIONS:
        raise GrammarError(f"the grammar has {len(source.definitions)} rules", expected=f"at most {MAX_DEFINITIONS}")
    for options in source.options:
        raise _refuse("%llguidance changes the whole plan", options.at)
    _check_atoms(source, roles, references)
    _check_names(source)
    for definition in source.definitions:
        _check_definition(definition)
    _check_terminals(source)
    _check_productive(source)


def _refuse(message: str, at: Place, hint: str = "only a trusted caller may write it") -> GrammarError:
    return GrammarError(message, line=at[0], column=at[1], hint=hint)


def _check_atoms(source: Source, roles: frozenset[str], references: frozenset[str]) -> None:
    for number, expr in enumerate(source.walk()):
        if number > MAX_ATOMS:
            raise GrammarError("the grammar is too large", expected=f"at most {MAX_ATOMS} literals and names")
        match expr:
            case TokenSyntax(text=text, at=at):
                raise _refuse(f"{text} writes a token, not text", at, f'"{text}" in quotes is text')
            case GrammarRef(name=name, at=at) if name not in references:
                raise _refuse(f"@{name} reaches another grammar", at)
            case Unsupported(what=what, at=at):
                raise _refuse(f"{what} is not supported", at, "write rules of your own")
            case RoleMark(name=name, at=at) if name not in roles:
                known = ", ".join(f"${role}" for role in sorted(roles))
                if not known:
                    raise _refuse(f"${name} is no Lark", at, "roles stand in reasoning templates only")
                raise GrammarError(f"there is no role ${name}", line=at[0], column=at[1], expected=known)
            case RegexExt(json=body, at=at) if not body.startswith("{"):
                raise _refuse("%regex takes an object", at, 'write %regex {"substring_words": "..."}')
            case JsonExpr(json=body, at=at) if not body.startswith(("{", "true", "false")):
                raise _refuse(f"%json takes a schema, not {body[:40]}", at, 'write %json {"type": ...}')
            case Regexp(regex=regex, flags=flags, at=at):
                _check_regex(regex, flags, at)
    for definition in source.definitions:
        _check_nesting(definition)


def _check_regex(regex: str, flags: str, at: Place) -> None:
    try:
        language(regex, flags)
    except NotTranslated:
        return  # the engine decides
    except InvalidRegex as error:
        column = at[1] + 1 + error.at
        raise GrammarError(f"not a regular expression: {error}", line=at[0], column=column) from None


def _check_nesting(definition: Definition) -> None:
    stack: list[tuple[Expr, int]] = [(definition.body, 0)]
    while stack:
        expr, depth = stack.pop()
        if depth > MAX_NESTING:
            raise _refuse(f"parentheses are nested more than {MAX_NESTING} deep", definition.at, "name the inner parts")
        stack.extend((child, depth + (not isinstance(child, WhenExpr))) for child in _children(expr))


def _children(expr: Expr) -> Iterable[Expr]:
    match expr:
        case SeqExpr(parts=parts) | AltExpr(options=parts) | AndExpr(parts=parts):
            return parts
        case NotExpr(body=body) | Repeated(body=body) | WhenExpr(body=body):
            return (body,)
    return ()


# -- names


def _check_names(source: Source) -> None:
    defined: dict[str, Place] = {}
    for definition in source.definitions:
        if definition.name in defined:
            line = defined[definition.name][0]
            raise _refuse(f"{definition.name!r} is defined twice", definition.at, f"first in line {line}")
        defined[definition.name] = definition.at
    for imported in source.imports:
        if imported.path != "common" or imported.name not in COMMON:
            known = ", ".join(sorted(COMMON)) if imported.path == "common" else "common.NAME"
            raise GrammarError(
                f"there is no {imported.path}.{imported.name}", line=imported.at[0], column=imported.at[1],
                expected=known,
            )  # fmt: skip
        if imported.alias in defined:
            raise _refuse(f"{imported.alias!r} is defined twice", imported.at, "")
        defined[imported.alias] = imported.at
    if "start" not in defined:
        raise GrammarError("there is no rule called start", expected="start: ...")
    for expr in source.walk():
        if isinstance(expr, Name) and expr.name not in defined:
            near = difflib.get_close_matches(expr.name, defined, 1)
            raise _refuse(f"{expr.name!r} is not defined", expr.at, f"is it {near[0]!r}?" if near else "")
    _check_parameters(source)


def _check_parameters(source: Source) -> None:
    takes = {definition.name: definition.parameter is not None for definition in source.definitions}
    for expr in source.walk():
        if isinstance(expr, Name) and takes.get(expr.name, False) != (expr.argument is not None):
            raise _refuse(f"{expr.name!r} and its definition disagree about a parameter", expr.at, "")


# -- one definition


def _check_definition(definition: Definition) -> None:
    for attribute in definition.attributes:
        _check_attribute(attribute)
    if definition.is_terminal:
        if definition.attributes or definition.parameter:
            raise _refuse("a terminal takes no attributes and no parameter", definition.at, "use a lower-case name")
        _check_lexeme(definition.body, f"the terminal {definition.name}")
    elif any(attribute.name in _LEXEME_ATTRIBUTES for attribute in definition.attributes):
        _check_lexeme(definition.body, f"{definition.name}, which has lazy or suffix,")
    else:
        for expr in walk(definition.body):
            if isinstance(expr, AndExpr):
                raise _refuse("& joins terminals only", expr.at, "give it an UPPER-CASE name")


def _check_attribute(attribute: Attribute) -> None:
    if attribute.name in _TRUSTED_ATTRIBUTES:
        raise _refuse(f"{attribute.name}= is not a client's to set", attribute.at, _TRUSTED_ATTRIBUTES[attribute.name])
    if attribute.name not in (*_LEXEME_ATTRIBUTES, *_HARMLESS_ATTRIBUTES):
        known = ", ".join((*_LEXEME_ATTRIBUTES, *_HARMLESS_ATTRIBUTES))
        line, column = attribute.at
        raise GrammarError(f"there is no attribute {attribute.name!r}", line=line, column=column, expected=known)
    if attribute.name == "suffix":
        if attribute.value is None or isinstance(attribute.value, str):
            raise _refuse("suffix= needs a literal, a regex or a terminal", attribute.at, 'write suffix="..."')
        _check_lexeme(attribute.value, "suffix=")


def _check_lexeme(body: Expr, what: str) -> None:
    for expr in walk(body):
        match expr:
            case Name(name=name, at=at) if not expr.is_terminal:
                raise _refuse(f"{what} holds the rule {name!r}", at, "only terminals, literals and regexes fit")
            case JsonExpr(at=at):
                raise _refuse(f"{what} holds %json", at, "use it in a rule")
            case RoleMark(at=at):
                raise _refuse(f"{what} holds a token", at, "use it in a rule")
            case WhenExpr():
                raise GrammarError(f"{what} holds a condition", hint="conditions belong to rules with a parameter")


# -- terminals and rules as graphs


def _check_terminals(source: Source) -> None:
    """No terminal may be made of itself: it is a regular expression, with what it names written out in it."""
    terminals = {d.name: d for d in source.definitions if d.is_terminal}
    done: dict[str, int] = {}  # terminal -> its size when written out
    for name in terminals:
        path: list[tuple[str, list[Name]]] = [(name, _names(terminals, name))] if name not in done else []
        while path:
            current, names = path[-1]
            if not names:
                done[current] = _written_out(terminals[current], done)
                path.pop()
                continue
            follower = names.pop()
            if any(follower.name == earlier for earlier, _ in path):
                raise _refuse(f"the terminal {follower.name} is made of itself", follower.at, "use lower-case rules")
            if follower.name in terminals and follower.name not in done:
                path.append((follower.name, _names(terminals, follower.name)))


def _written_out(terminal: Definition, sizes: Mapping[str, int]) -> int:
    size = sum(sizes.get(expr.name, 1) if isinstance(expr, Name) else 1 for expr in walk(terminal.body))
    if size > MAX_WRITTEN_OUT:
        line, column = terminal.at
        raise GrammarError(
            f"the terminal {terminal.name} is too large when the terminals that it names are written out in it",
            line=line,
            column=column,
            expected=f"at most {MAX_WRITTEN_OUT} parts",
            hint="use lower-case rules",
        )
    return size


def _names(terminals: dict[str, Definition], name: str) -> list[Name]:
    return [expr for expr in walk(terminals[name].body) if isinstance(expr, Name)]


def _check_productive(source: Source) -> None:
    """Every rule that can be reached must have a finite text, or a model that enters it never gets out."""
    rules = {d.name: d for d in source.definitions if not d.is_terminal}
    users: dict[str, set[str]] = {name: set() for name in rules}
    for rule in rules.values():
        for expr in walk(rule.body):
            if isinstance(expr, Name) and expr.name in rules:
                users[expr.name].add(rule.name)
    productive: set[str] = set()
    waiting = list(rules)
    while waiting:
        name = waiting.pop()
        if name not in productive and _is_productive(rules[name].body, rules, productive):
            productive.add(name)
            waiting.extend(users[name])
    for name in _reachable(rules, "start"):
        if name not in productive and name in _reachable(rules, name)[1:]:
            raise _refuse(f"the rule {name!r} can never end", rules[name].at, "give it an option without itself")


def _is_productive(expr: Expr, rules: dict[str, Definition], productive: set[str]) -> bool:
    match expr:
        case Name(name=name):
            return name not in rules or name in productive
        case SeqExpr(parts=parts) | AndExpr(parts=parts):
            return all(_is_productive(part, rules, productive) for part in parts)
        case AltExpr(options=options):
            return any(_is_productive(option, rules, productive) for option in options)
        case Repeated(body=body, least=least):
            return least == 0 or _is_productive(body, rules, productive)
        case WhenExpr(body=body):
            return _is_productive(body, rules, productive)
    return True


def _reachable(rules: dict[str, Definition], begin: str) -> list[str]:
    """``begin`` and the rules that it leads to; once more at the end where it leads back to itself."""
    found: dict[str, None] = {}
    waiting = [begin]
    while waiting:
        for expr in walk(rules[waiting.pop()].body):
            if isinstance(expr, Name) and expr.name in rules and expr.name not in found:
                found[expr.name] = None
                waiting.append(expr.name)
    return [begin, *found]
