"""A Lark grammar with its rules written out, so that what follows a lexeme is known for each of its places."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from grammars.limits.work import TooMuch
from grammars.text_grammars.lark.ast import AltExpr, Expr, LarkGrammar, Name, Repeated, SeqExpr, map_parts
from grammars.text_grammars.lark.graph import components, uses_of

__all__ = ["written_out"]

#: The longest repeat that is written out, and the parts of a grammar that is.
_MOST_COPIES, _MOST_PARTS = 8, 2_000


def written_out(source: LarkGrammar) -> LarkGrammar:
    """Return the grammar with its rules in place of their names, and repeats up to `_MOST_COPIES` written out.

    A recursive rule is written out once, and stays for its own mentions within it.  Where the grammar would get too
    large or too deep, recursive rules stay everywhere, or else all of it does.
    """
    for unrolled in (True, False):
        with suppress(TooMuch, RecursionError):
            return _written_out(source, unrolled)
    return source


def _written_out(source: LarkGrammar, unrolled: bool) -> LarkGrammar:
    lexemes = tuple(d for d in source.definitions if d.is_lexeme)
    rules = {d.name: d for d in source.definitions if not d.is_lexeme}
    uses = uses_of(rules.values())
    kept = frozenset(n for group in components(uses) for n in group if len(group) > 1 or n in uses[n])
    room = [_MOST_PARTS]

    def copy(expr: Expr, within: frozenset[str]) -> Expr:
        room[0] -= 1
        if room[0] < 0:
            raise TooMuch
        again = partial(copy, within=within)
        match expr:
            case Name(name=name) if name in rules and name not in within:
                return copy(rules[name].body, within | {name})
            case Name(name="start"):
                return replace(expr, name=_INNER_START)
            case Repeated(body=body, least=least, most=most) if max(least, most or 0) <= _MOST_COPIES:
                more = [None] if most is None else [1] * (most - least)
                return SeqExpr((*(again(body) for _ in range(least)), *(Repeated(again(body), 0, n) for n in more)))
            case SeqExpr() | AltExpr() | Repeated():
                return map_parts(expr, again)
        return replace(expr)

    begin = frozenset() if unrolled else kept
    tops = [replace(d, body=copy(d.body, begin)) for d in rules.values() if d.name == "start"]
    inner = [replace(rules[n], name=_INNER_START if n == "start" else n, body=copy(rules[n].body, kept)) for n in kept]
    return replace(source, definitions=(*lexemes, *tops, *inner))


#: The rule ``start`` within itself.
_INNER_START = "start'"
