"""Raw text as terminals: from a language over code points to a node over plain text, without quotes or escapes."""

from __future__ import annotations

from grammars.regular.printing import NodePrinter
from grammars.regular.syntax.write import written
from grammars.regular.terms import ALL, Regular
from grammars.tree.nodes import Node, Pattern, Text, alt, seq

__all__ = ["ANY_TEXT", "raw_node"]

#: Any text, line breaks included.
ANY_TEXT = Pattern("(?s:.*)")


def _leaf(term: Regular, lead: str, end: str) -> Node:
    if term == ALL:
        return ANY_TEXT
    return seq(lead, Pattern(written(term)) if term.op != "words" else alt(*map(Text, sorted(term.args))), end)


_NODES = NodePrinter(_leaf, ANY_TEXT)


def raw_node(term: Regular) -> Node:
    """Return the terminal node of exactly the words of ``term``."""
    return _NODES.node(term)
