"""What is left of a grammar when its first characters have been written already."""

from __future__ import annotations

from grammars.plan.plan import Pieces
from grammars.tree.nodes import Alt, Node, Repeat, Rule, Seq, Text, Tokens, alt, seq

__all__ = ["after"]


def after(node: Node, written: Pieces) -> Node:
    """The grammar of what may follow ``written`` (marker text in pieces, see `SpecialTokens.pieces`).

    Options that do not begin so vanish.  Raises `ValueError` where nothing begins so.
    """
    left = _strip((node,), written)
    if not left:
        raise ValueError(f"nothing here begins with {written!r}")
    return alt(*left)


def _strip(parts: tuple[Node, ...], written: Pieces) -> list[Node]:
    """What may follow ``written`` in each way in which the parts can begin with it."""
    if not written:
        return [seq(*parts)]
    if not parts:
        return []
    first, rest, piece = parts[0], parts[1:], written[0]
    match first:
        case Seq(parts=inner):
            return _strip((*inner, *rest), written)
        case Alt(options=options):
            return [left for option in options for left in _strip((option, *rest), written)]
        case Rule(body=body):
            return _strip((body, *rest), written)
        case Repeat(body=body, least=0, most=1):
            return _strip((body, *rest), written) + _strip(rest, written)
        case Tokens(ranges=((low, high),), negated=False) if low == high == piece:
            return _strip(rest, written[1:])
        case Text(text=text) if isinstance(piece, str) and text.startswith(piece):
            return _strip((Text(text[len(piece) :]), *rest) if text != piece else rest, written[1:])
        case Text(text=text) if isinstance(piece, str) and piece.startswith(text):
            return _strip(rest, (piece[len(text) :], *written[1:]))
    return []
