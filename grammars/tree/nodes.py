"""Grammars as immutable trees; `grammars.tree.render`, the only module that quotes and names, turns them into Lark.

**Terminal nodes** describe one lexeme, a regular language over characters: `Text`, `Pattern`, `And`, `Not`, `Lexeme`,
and `Seq`, `Alt`, `Repeat` of terminal nodes.  **Rule nodes**, all others, combine lexemes, tokens and schemas.

Lexemes are greedy and never give characters back: a lexeme whose class contains its own delimiter can never end.  Free
text must end by a token (`Tokens`), by `Until`, or by a class that excludes the delimiter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "EMPTY",
    "Alt",
    "And",
    "Group",
    "Lexeme",
    "Node",
    "Not",
    "Pattern",
    "Ref",
    "Repeat",
    "Rule",
    "RuleDef",
    "Seq",
    "Sub",
    "Text",
    "Tokens",
    "Until",
    "When",
    "alt",
    "is_empty",
    "is_terminal",
    "opt",
    "quantifier",
    "repeat",
    "seq",
    "token",
]


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly these characters.  ``ignore_case`` compares ASCII letters without case."""

    text: str
    ignore_case: bool = False
    at: str = field(default="", compare=False)  #: the place in the request that errors name, as in `Pattern`, `Rule`


@dataclass(frozen=True, slots=True)
class Pattern:
    """A whole-lexeme regular expression in Rust syntax (no look-around, no back-references).

    ``.`` excludes ``\\n``, ``\\d \\w \\s`` are Unicode; a ``/`` needs no escape here.
    """

    regex: str
    at: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """Lexemes matched by every part (terminal nodes only)."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Lexemes that the body does not match.  May match invalid UTF-8: intersect with ``(?s:.*)``."""

    body: Node


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A named terminal: one regular language, recognised as one lexeme."""

    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Tokens:
    """One token out of a set of ids, in inclusive ranges.

    ``label`` is shown in the legend (the marker's text); it does not reach the engine.
    """

    ranges: tuple[tuple[int, int], ...]
    label: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Seq:
    """The parts one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """One of the options.  Composed parts are always parenthesised by the renderer."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body ``least`` to ``most`` times (``most=None``: without bound)."""

    body: Node
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Until:
    """A lexeme from ``body`` that ends with the first occurrence of ``end``, which it includes.

    ``body`` must be terminal; ``end`` is a `Text` or a `Pattern`.  Rollback across it is exact.
    """

    name: str
    body: Node
    end: Text | Pattern


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule.  ``region`` is the part of the answer that it writes, for legends."""

    name: str
    body: Node
    region: str = field(default="", compare=False)
    at: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Sub:
    """A whole Lark grammar in its own name space, entered at its ``start``."""

    name: str
    lark: str


@dataclass(frozen=True, slots=True)
class RuleDef:
    """A rule of a `Group`.  ``parametric`` rules carry a 64-bit parameter, written ``_`` in refs and conditions."""

    body: Node
    parametric: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Mutually recursive rules, entered at ``start``; `Ref` finds them by name, the innermost group first."""

    name: str
    start: Node
    rules: Mapping[str, RuleDef]


@dataclass(frozen=True, slots=True)
class Ref:
    """A rule of an enclosing `Group`; ``argument`` (``_``, ``incr(_)``, ``0x0``) for parametric ones."""

    name: str
    argument: str | None = None


@dataclass(frozen=True, slots=True)
class When:
    """An option of a parametric rule that is allowed only while ``condition`` (``is_ones([0:3])``) holds."""

    body: Node
    condition: str


Node: TypeAlias = (
    Text | Pattern | And | Not | Lexeme | Tokens | Seq | Alt | Repeat | Until | Rule | Sub | Group | Ref | When
)

#: The empty text.
EMPTY = Seq(())


def is_empty(node: Node) -> bool:
    """Whether the shape of a node shows that it can only write the empty text (no search)."""
    if isinstance(node, Text):
        return not node.text
    if isinstance(node, Seq):
        return all(map(is_empty, node.parts))
    return isinstance(node, Repeat) and node.most == 0


def seq(*parts: Node | str) -> Node:
    """Return the parts in order, flattened; strings become `Text`, empty parts are left out."""
    flat: list[Node] = []
    for part in parts:
        node = Text(part) if isinstance(part, str) else part
        if isinstance(node, Ref) or not is_empty(node):
            flat += node.parts if isinstance(node, Seq) else (node,)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def alt(*options: Node | str) -> Node:
    """Return a choice of the options, flattened; strings become `Text`.  Raises `ValueError` without an option."""
    flat: list[Node] = []
    for option in options:
        node = Text(option) if isinstance(option, str) else option
        if isinstance(node, Alt):
            flat.extend(node.options)
        else:
            flat.append(node)
    if not flat:
        raise ValueError("alt() needs at least one option")
    return flat[0] if len(flat) == 1 else Alt(tuple(flat))


def opt(*parts: Node | str) -> Node:
    """Return the parts in order, or nothing."""
    return repeat(seq(*parts), 0, 1)


def repeat(body: Node | str, least: int = 0, most: int | None = None) -> Node:
    """Return the body ``least`` to ``most`` times; the engine has no ``{0}``, so zero times is `EMPTY`."""
    node = Text(body) if isinstance(body, str) else body
    if most is not None and most < least:
        raise ValueError(f"repeat() from {least} to {most}")
    if most == 0 or is_empty(node):
        return EMPTY
    return node if (least, most) == (1, 1) else Repeat(node, least, most)


def token(token_id: int, label: str = "") -> Tokens:
    """Return the node of exactly this token."""
    return Tokens(((token_id, token_id),), label=label)


def is_terminal(node: Node) -> bool:
    """Whether the node describes a single lexeme."""
    match node:
        case Text() | Pattern() | Lexeme() | And() | Not():
            return True
        case Seq(parts=parts) | Alt(options=parts):
            return all(is_terminal(part) for part in parts)
        case Repeat(body=body):
            return is_terminal(body)
        case _:
            return False


def quantifier(least: int, most: int | None) -> str:
    """Return the quantifier for ``least`` to ``most`` times."""
    if most is None and least < 2:
        return "+" if least else "*"
    if (least, most) == (0, 1):
        return "?"
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
