"""A Lark grammar with its rules written out, so that what follows a lexeme is known for each of its places."""

from __future__ import annotations

from dataclasses import replace

from grammars.limits.work import TooMuch
from grammars.text_grammars.lark.ast import AltExpr, Expr, LarkGrammar, Name, Repeated, SeqExpr, WhenExpr
from grammars.text_grammars.lark.graph import components, uses_of

__all__ = ["written_out"]

#: The longest repeat that is written out, and the parts of a grammar that is.
_MOST_COPIES, _MOST_PARTS = 8, 2_000


def written_out(source: LarkGrammar) -> LarkGrammar:
    """Return the grammar with its rules in place of their names, and repeats up to `_MOST_COPIES` written out.

    Recursive rules stay, and the whole grammar where it would get too large or too deep.
    """
    rules = {d.name: d for d in source.definitions if not d.is_terminal and not d.attributes}
    uses = uses_of(rules.values())
    groups = components(uses)
    plain = {name for group in groups if len(group) == 1 for name in group if name not in uses[name]}
    room = [_MOST_PARTS]

    def copy(expr: Expr) -> Expr:
        room[0] -= 1
        if room[0] < 0:
            raise TooMuch
        match expr:
            case Name(name=name) if name in plain:
                return copy(rules[name].body)
            case SeqExpr(parts=parts):
                return SeqExpr(tuple(map(copy, parts)))
            case AltExpr(options=options):
                return AltExpr(tuple(map(copy, options)))
            case Repeated(body=body, least=least, most=most):
                if least > _MOST_COPIES or (most or 0) > _MOST_COPIES:
                    return replace(expr, body=copy(body))
                more = range(1 if most is None else most - least)
                last = None if most is None else 1
                return SeqExpr((*(copy(body) for _ in range(least)), *(Repeated(copy(body), 0, last) for _ in more)))
            case WhenExpr(body=body):
                return replace(expr, body=copy(body))
        return replace(expr)

    try:
        return replace(source, definitions=tuple(
            d if d.is_terminal or d.attributes else replace(d, body=copy(d.body))
            for d in source.definitions if d.name not in plain or d.name == "start"
        ))  # fmt: skip
    except (TooMuch, RecursionError):
        return source
