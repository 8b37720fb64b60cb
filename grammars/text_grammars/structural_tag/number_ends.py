"""Refuses a JSON number in front of text that may go on with it: the lexer would read more of the number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grammars.regular.languages import surely_empty
from grammars.regular.syntax.rust import approximate_language
from grammars.regular.terms import derive
from grammars.tree.nodes import (
    Alt,
    And,
    Group,
    Lexeme,
    Node,
    Pattern,
    Ref,
    Repeat,
    Rule,
    RuleDef,
    Seq,
    Text,
    Tokens,
    Until,
)
from special_tokens.errors import GrammarError

__all__ = ["check_numbers"]

_IN_NUMBERS = "0123456789.eE"


def check_numbers(parts: Sequence[Node], places: Sequence[str]) -> None:
    """Raise `GrammarError` if a part may go on with the number at the end of those before it, with its place."""
    goes_on = False
    for i in range(len(parts) - 1, 0, -1):
        goes_on = _goes_on(parts[i], goes_on)
        if goes_on and _ends_with_number(parts[i - 1]):
            raise GrammarError("what follows a JSON number may begin like more of the number", place=places[i],
                               hint="begin it with another text, or put the number into a tag")  # fmt: skip


def _goes_on(node: Node, then: bool) -> bool:
    """Whether a number may go on with ``node``, or if that may be empty, with what ``then`` tells about."""
    match node:
        case Text(text=text):
            return text[0] in _IN_NUMBERS if text else then
        case Pattern(regex=regex):
            language = approximate_language(regex)
            return (language.nullable and then) or not all(surely_empty(derive(language, ord(c))) for c in _IN_NUMBERS)
        case Seq(parts=parts):
            for part in reversed(parts):
                then = _goes_on(part, then)
            return then
        case Alt(options=options):
            return any(_goes_on(option, then) for option in options)
        case And(parts=parts):
            return all(_goes_on(part, then) for part in parts)
        case Repeat(body=body, least=least):
            return _goes_on(body, then) or (least == 0 and then)
        case Until(body=body, end=end):
            return _goes_on(body, _goes_on(end, then))
        case Rule(name="payload", body=body):
            return _may_be_number(body, {})
        case Lexeme(body=body) | Rule(body=body) | Group(start=body):
            return _goes_on(body, then)
    return not isinstance(node, Tokens)


def _ends_with_number(node: Node) -> bool:
    match node:
        case Rule(name="payload", body=body):
            return _may_be_number(body, {})
        case Seq(parts=(*before, last)):
            return _ends_with_number(last) or (_goes_on(last, True) and _ends_with_number(Seq(tuple(before))))
        case Alt(options=options):
            return any(map(_ends_with_number, options))
        case Repeat(body=body):
            return _ends_with_number(body)
    return False


def _may_be_number(node: Node, rules: Mapping[str, RuleDef]) -> bool:
    """Whether a number is among the JSON values of ``node``, which our own compiler of schemas made."""
    match node:
        case Lexeme(name=name):
            return name in ("number", "integer")
        case Rule(body=body):
            return _may_be_number(body, rules)
        case Group(start=start, rules=inner_rules):
            return _may_be_number(start, inner_rules)
        case Ref(name=name) if name in rules:
            return _may_be_number(rules[name].body, {key: rules[key] for key in rules if key != name})
        case Alt(options=options):
            return any(_may_be_number(option, rules) for option in options)
    return False
