"""The printer of regular languages, as patterns and as grammar nodes; how characters are written is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grammars.regular.terms import ALL, Ranges, Regular, cat
from grammars.tree.nodes import And, Node, Not, Pattern, Seq, alt, quantifier, repeat, seq

__all__ = ["NodePrinter", "PatternPrinter"]

#: Any bytes, characters or not.
_ANYTHING = Not(Pattern("[^\\s\\S]"))


@dataclass(frozen=True)
class PatternPrinter:
    """Writes plain terms as patterns, without anchors."""

    char_class: Callable[[Ranges], str]
    literal: Callable[[str], str]  #: of a whole word
    group: str = "(?:"  #: how a group opens

    def pattern(self, term: Regular) -> str:
        args = term.args
        match term.op:
            case "chars":
                return self.char_class(args)
            case "words" | "alt":
                options = list(map(self.literal, sorted(args)) if term.op == "words" else map(self.pattern, args))
                if not options:
                    return self.char_class(())
                return options[0] if len(options) == 1 else f"{self.group}{'|'.join(options)})"
            case "cat":
                return "".join(map(self.pattern, args))
        body, least, most = args
        if (least, most) == (0, 0):
            return ""
        (word,) = body.args if body.op == "words" and len(body.args) == 1 else (None,)
        inner = self.char_class(((ord(word), ord(word)),)) if word and len(word) == 1 else self.pattern(body)
        if body.op in ("cat", "rep") or (word and len(word) > 1):
            inner = f"{self.group}{inner})"
        return inner + quantifier(least, most)


@dataclass(frozen=True)
class NodePrinter:
    """Writes any terms as nodes: ``leaf`` (term, text before, text after) writes a plain one; ``every`` is any text."""

    leaf: Callable[[Regular, str, str], Node]
    every: Node

    def node(self, term: Regular) -> Node:
        """Return the node of exactly the words of ``term``."""
        if term.plain:
            return self.leaf(term, "", "")
        args = term.args
        match term.op:
            case "cat":
                return Seq(tuple(map(self.node, args)))
            case "alt":
                return alt(*map(self.node, args))
            case "and" | "not":
                parts = args if term.op == "and" else (term,)
                closed = [self.node(part) for part in parts if part.op != "not"] or [self.every]
                return And((*closed, *(self.begun(part) for part in parts if part.op == "not")))
        body, least, most = args
        return repeat(self.node(body), least, most)

    def begun(self, term: Regular, lead: str = "", end: str = "") -> Node:
        """Return texts such that those of them that ``every`` has are the words of ``term``.

        Between ``lead`` and ``end``.  An arbitrary tail is any bytes here, not any characters.  That absorbs everything
        it is combined with, so the engine sees at once that a forbidden match leaves nothing.  After a match of
        ``.*a.{25}b.*`` it would otherwise try all strings that differ in the counts still running.
        """
        match term.op:
            case "not":
                return Not(self.begun(term.args[0], lead, end))
            case "and":
                return And(tuple(self.begun(part, lead, end) for part in term.args))
            case "alt" if _goes_on(term):
                return alt(*(self.begun(part, lead, end) for part in term.args))
            case "cat" if term.args and term.args[-1] == ALL:
                return seq(lead, self.node(cat(*term.args[:-1])), _ANYTHING)
            case "cat" if term.args and _goes_on(term.args[-1]):
                return seq(lead, self.node(cat(*term.args[:-1])), self.begun(term.args[-1], "", end))
        return self.leaf(term, lead, end) if term.plain else seq(lead, self.node(term), end)


def _goes_on(term: Regular) -> bool:
    """Whether `NodePrinter.begun` treats a part of the term in a special way."""
    match term.op:
        case "alt":
            return any(map(_goes_on, term.args))
        case "cat" if term.args:
            return term.args[-1] == ALL or _goes_on(term.args[-1])
    return not term.plain
