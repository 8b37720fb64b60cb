"""Raw text as terminals: from a language over code points to a node over plain text, without quotes or escapes."""

from __future__ import annotations

from grammars.regular.json_strings import ANYTHING
from grammars.regular.languages import ALL, Regular, cat
from grammars.regular.syntax.write import written
from grammars.tree.nodes import And, Node, Not, Pattern, Seq, Text, alt, repeat, seq

__all__ = ["ANY_TEXT", "raw_node"]

#: Any text, line breaks included.
ANY_TEXT = Pattern("(?s:.*)")


def raw_node(term: Regular) -> Node:
    """The terminal node of exactly the words of ``term``."""
    if term == ALL:
        return ANY_TEXT
    if term.plain:
        return Pattern(written(term)) if term.op != "words" else alt(*map(Text, sorted(term.args)))
    args = term.args
    match term.op:
        case "cat":
            return Seq(tuple(map(raw_node, args)))
        case "alt":
            return alt(*map(raw_node, args))
        case "and":
            wanted = [raw_node(part) for part in args if part.op != "not"] or [ANY_TEXT]
            return And((*wanted, *(Not(_begun(part.args[0])) for part in args if part.op == "not")))
        case "not":
            return And((ANY_TEXT, Not(_begun(args[0]))))
    body, least, most = args
    return repeat(raw_node(body), least, most)


def _begun(term: Regular) -> Node:
    """A node over bytes whose valid UTF-8 texts are the words of ``term``, as in `grammars.regular.json_strings`."""
    if term.op == "alt" and term.args:
        return alt(*map(_begun, term.args))
    if term.op == "cat" and term.args and term.args[-1] == ALL:
        return seq(raw_node(cat(*term.args[:-1])), ANYTHING)
    return raw_node(term)
