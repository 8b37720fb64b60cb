"""Texts of a structural tag that the lexer loses: it reads one lexeme on where another should follow.

The tag is brought into the form of Lark grammars, whose `LexerWalk` tells what is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grammars.json_schema.build import Outcome, ReportRow
from grammars.regular.terms import Regular, cat, chars
from grammars.text_grammars.lark.ast import AltExpr, Definition, Expr, KnownLexeme, LarkGrammar, Name, Repeated, SeqExpr
from grammars.text_grammars.lark.greedy_lexemes import CLOSE, json_language, node_language, shortest_texts
from grammars.text_grammars.lark.lost_texts import LexerWalk
from grammars.tree import nodes
from grammars.tree.nodes import Node, Pattern, Text
from grammars.values.spelling import Spelling
from special_tokens.errors import GrammarError

__all__ = ["lost_texts"]


#: A regex that authors of structural tags do not write, as errors show it.
_SHOWN = {"(?s:.*)": "any text"}


def lost_texts(node: Node, place: str, spelling: Spelling) -> Iterator[ReportRow]:
    """Yield a row for what the lexer loses of a structural tag to free text, or beyond ASCII alone.

    Raise `GrammarError` if it loses other texts, with the place of what it cannot write, or all.
    """
    rules: list[Definition] = []
    start = Definition("start", _expr(node, rules, {}, spelling))
    walk = LexerWalk(LarkGrammar((start, *rules)))
    lost = next((one for one in walk.lost if not one.is_rare), None)
    if lost is not None or not walk.may_end:
        raise GrammarError(lost.reason if lost else "no text ends this format", place=(lost and lost.place) or place,
                           expected="another beginning, or an earlier end of what stands before it",
                           hint="any_text ends at the literal or the tag that follows it")  # fmt: skip
    for lazy, other in walk.cut:
        yield ReportRow("", other, Outcome.NARROWED, f"it is not read on where {lazy} ends at what follows it")
    for lost in walk.lost:
        yield ReportRow("", lost.long, Outcome.NARROWED, lost.reason)


def _expr(node: Node, rules: list[Definition], names: Mapping[str, str], spelling: Spelling) -> Expr:
    """Return the node as Lark has it, with tokens as characters of no text.

    ``rules`` gets the rules of groups; ``names`` are theirs by the name within the groups around the node.
    """
    match node:
        case nodes.Until(body=body, end=end):
            return _lexeme(
                shortest_texts(cat(node_language(body), node_language(end))), body, is_text=True, is_lazy=True
            )
        case nodes.Rule(name="text", body=body):
            return _lexeme(node_language(body), body, is_text=True)
        case nodes.Rule(body=body, at=at):
            return KnownLexeme(json_language(body, spelling), "a JSON value", at)
        case nodes.Tokens(ranges=ranges):
            return KnownLexeme(chars((-2 - high, -2 - low) for low, high in ranges), "a token")
        case nodes.Group(start=start, rules=inner):
            names = {**names, **{name: f"{name} {id(node)}" for name in inner}}
            rules += [Definition(names[name], _expr(rule.body, rules, names, spelling)) for name, rule in inner.items()]
            return _expr(start, rules, names, spelling)
        case nodes.Ref(name=name):
            return Name(names[name])
        case _ if nodes.is_terminal(node):
            return _lexeme(node_language(node), node)
        case nodes.Repeat(body=body, least=least, most=most):
            return Repeated(_expr(body, rules, names, spelling), least, most)
        case nodes.Seq(parts=parts):
            return SeqExpr(tuple(_expr(part, rules, names, spelling) for part in parts))
        case nodes.Alt(options=options):
            return AltExpr(tuple(_expr(option, rules, names, spelling) for option in options))
    return KnownLexeme(CLOSE, "a grammar")  # of which no more is known


def _lexeme(language: Regular, node: Node, *, is_lazy: bool = False, is_text: bool = False) -> KnownLexeme:
    leaves = list(_leaves(node))
    shown = (
        repr(leaf.text) if isinstance(leaf, Text) else _SHOWN.get(leaf.regex, f"/{leaf.regex}/") for leaf in leaves
    )
    place = next((leaf.at for leaf in leaves if leaf.at), "")
    return KnownLexeme(language, " ".join(shown)[:80], place, is_lazy, is_text)


def _leaves(node: Node) -> Iterator[Text | Pattern]:
    match node:
        case Text() | Pattern():
            yield node
        case nodes.Lexeme(body=body) | nodes.Repeat(body=body):
            yield from _leaves(body)
        case nodes.Seq(parts=parts) | nodes.Alt(options=parts) | nodes.And(parts=parts):
            for part in parts:
                yield from _leaves(part)
