"""Strip a literal prefix from a grammar (left quotient)."""

from __future__ import annotations

from grammars.plan.plan import Pieces
from grammars.tree.nodes import Alt, Node, Repeat, Rule, Seq, Text, Tokens, alt, seq

__all__ = ["strip_prefix"]


def strip_prefix(node: Node, written: Pieces) -> Node:
    """Return the grammar of what may follow ``written`` (marker text in pieces, see `SpecialTokens.pieces`).

    Options that do not begin with it are left out.  Raises `ValueError` where none does.
    """
    left = _strip((node,), written)
    if not left:
        raise ValueError(f"nothing here begins with {written!r}")
    return alt(*left)


def _strip(parts: tuple[Node, ...], written: Pieces) -> list[Node]:
    """The grammar of what may follow ``written``, for each way in which the parts can begin with it."""
    if not written:
        return [seq(*parts)]
    if not parts:
        return []
    first, parts_after, piece = parts[0], parts[1:], written[0]
    match first:
        case Seq(parts=inner):
            return _strip((*inner, *parts_after), written)
        case Alt(options=options):
            return [left for option in options for left in _strip((option, *parts_after), written)]
        case Rule(body=body):
            return _strip((body, *parts_after), written)
        case Repeat(body=body, least=0, most=1):
            return _strip((body, *parts_after), written) + _strip(parts_after, written)
        case Tokens(ranges=((low, high),)) if low == high == piece:
            return _strip(parts_after, written[1:])
        case Text(text=text) if isinstance(piece, str) and text.startswith(piece):
            return _strip((Text(text[len(piece) :]), *parts_after) if text != piece else parts_after, written[1:])
        case Text(text=text) if isinstance(piece, str) and piece.startswith(text):
            return _strip(parts_after, (piece[len(text) :], *written[1:]))
    return []
