"""Write a grammar tree as Lark text for llguidance.

A rule is named after its node, with a number if that name is taken.  Definitions of equal name and body are written
once.  The same tree always gives the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from grammars.tree.nodes import (
    Alt,
    And,
    Group,
    Lexeme,
    Node,
    Not,
    Pattern,
    Ref,
    Repeat,
    Rule,
    Seq,
    Sub,
    Text,
    Tokens,
    Until,
    When,
    is_terminal,
    quantifier,
)
from grammars.tree.rendered import Rendered
from special_tokens.errors import GrammarError

__all__ = ["MAX_NESTING", "quote", "quote_regex", "render"]

#: The engine refuses about 30 nested parentheses ("lark grammar too deeply nested"); deeper parts become rules.
MAX_NESTING = 12

_MAX_CACHED_TEXT = 200  # characters of a text whose literal is remembered

_ALT, _SEQ, _ATOM = 0, 1, 2  # operator precedence, loosest first


def quote(text: str, *, ignore_case: bool = False) -> str:
    """Return a Lark string literal for exactly this text.

    JSON's escapes are legal in Lark.  DEL is escaped as well: JSON leaves it raw and the engine's lexer refuses it.
    """
    literal = _literal(text) if len(text) <= _MAX_CACHED_TEXT else _literal.__wrapped__(text)
    return literal + "i" if ignore_case else literal


@lru_cache(maxsize=16_384)
def _literal(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise GrammarError(
            f"text holds a lone surrogate at character {error.start}", expected="text that can be written as UTF-8"
        ) from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


_ESCAPES = {"/": "\\/", "\n": "\\n", "\r": "\\r", "\\\n": "\\n", "\\\r": "\\r"}
_ESCAPABLE = re.compile(r"\\.|[/\n\r]", re.DOTALL)


def quote_regex(regex: str) -> str:
    """Return a Lark regex literal: slashes and line breaks are escaped where they are not yet.

    An empty pattern is written ``(?:)``, since two slashes begin a comment.
    """
    escaped = _ESCAPABLE.sub(lambda match: _ESCAPES.get(match[0], match[0]), regex)
    return f"/{escaped or '(?:)'}/"


def render(start: Node | Mapping[str, Node]) -> Rendered:
    """Return the grammar that begins at ``start``, or at each of several named starts that share their rules.

    Raises `GrammarError` for a tree that Lark cannot express.
    """
    writer = _LineWriter()
    starts = start if isinstance(start, Mapping) else {"start": start}
    try:
        return writer.finish(starts)
    except RecursionError:
        raise GrammarError("the grammar is nested too deeply", hint="flatten it or split it into rules") from None


class _LineWriter:
    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}  # name -> whole line, in order of creation
        self.names_by_line: dict[tuple[str, str], str] = {}  # (kind + hint, rest of the line) -> name
        self.subs: dict[str, str] = {}
        self.regions: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.used_names: set[str] = {"start"}
        self.next_number: dict[str, int] = {}
        self.defined: dict[tuple[int, str], tuple[str, Node]] = {}  # id of the node -> name; keeps it alive
        self.groups: dict[tuple[int, int], tuple[str, Node, tuple[_Scope, ...]]] = {}  # ids of group and scope

    def finish(self, starts: Mapping[str, Node]) -> Rendered:
        """Return the rendered starts with all rules that they use; a writer renders once."""
        expressions = {name: self.expr(node, _ALT, ())[0] for name, node in starts.items()}
        return Rendered(
            tuple(expressions.items()),
            "".join(f"{line}\n" for line in self.definitions.values()),
            tuple(self.subs.items()),
            tuple(self.regions.items()),
            tuple(sorted(self.labels.items())),
        )

    # -- expressions

    def expr(self, node: Node, outer: int, scope: tuple[_Scope, ...], *, terminal: bool = False) -> tuple[str, int]:
        """Return the Lark text of ``node``, with precedence ``outer`` around it, and its parentheses' nesting depth."""
        match node:
            case Text(text=text, ignore_case=ignore_case):
                return quote(text, ignore_case=ignore_case), 0
            case Ref(name=name, argument=argument):
                return self._ref(name, argument, scope), 0
            case Lexeme(name=name, body=body):
                return self._define(node, name, body, scope, terminal=True), 0
            case Pattern(regex=regex):
                return quote_regex(regex), 0
            case Seq(parts=()):
                return '""', 0
            case Seq(parts=parts):
                return self._join(" ", parts, _SEQ, outer, scope, terminal)
            case Alt(options=options):
                return self._join(" | ", options, _ALT, outer, scope, terminal)
            case Repeat(body=body, least=least, most=most):
                text, depth = self.expr(body, _ATOM, scope, terminal=terminal)
                if isinstance(body, Repeat):  # "x?*" is not an expression
                    text, depth = f"({text})", depth + 1
                return text + quantifier(least, most), depth
            case Tokens():
                return self._tokens(node), 0
            case And() | Not() if not terminal:
                return self._define(node, "T", node, scope, terminal=True), 0
            case And(parts=parts):
                return self._join(" & ", parts, _ATOM, _ATOM, scope, True)
            case Not(body=body):
                text, depth = self.expr(body, _ATOM, scope, terminal=True)
                return f"~{text}", depth
            case Rule(name=name, body=body, region=region):
                defined = self._define(node, name, body, scope)
                if region:
                    self.regions.setdefault(defined, region)
                return defined, 0
            case Until(name=name, body=body, end=end):
                return self._until(node, name, body, end), 0
            case Sub():
                return "@" + self._sub(node), 0
            case Group():
                return self._group(node, scope), 0
            case When(body=body, condition=condition):
                text, depth = self.expr(body, _SEQ, scope)
                return f"{text} %if {condition}", depth
        raise TypeError(f"not a grammar node: {node!r}")

    def _join(
        self,
        glue: str,
        parts: tuple[Node, ...],
        precedence: int,
        outer: int,
        scope: tuple[_Scope, ...],
        terminal: bool,
    ) -> tuple[str, int]:
        inner = _SEQ if precedence == _ALT else _ATOM
        rendered = [self.expr(part, inner, scope, terminal=terminal) for part in parts]
        depth = max(d for _, d in rendered)
        text = glue.join(t for t, _ in rendered)
        if precedence < outer or (precedence == _ATOM and len(parts) > 1):
            if depth + 1 > MAX_NESTING and not any(isinstance(part, When) for part in parts):
                return self._define_line("T" if terminal else "r", "part", f": {text}"), 0
            return f"({text})", depth + 1
        return text, depth

    def _tokens(self, node: Tokens) -> str:
        if not node.ranges:
            raise GrammarError("an empty set of tokens matches nothing")
        ids = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in node.ranges)
        text = f"<[{ids}]>"
        if node.label:
            self.labels.setdefault(text, node.label)
        return text

    # -- definitions

    def _define(self, node: Node, name: str, body: Node, scope: tuple[_Scope, ...], *, terminal: bool = False) -> str:
        kind = "T" if terminal else "r"
        key = (id(node), kind)
        if key in self.defined:
            return self.defined[key][0]
        if terminal and not is_terminal(body):
            raise GrammarError(f"lexeme {name!r} contains a rule, a token or a sub-grammar")
        text, _ = self.expr(body, _ALT, scope, terminal=terminal)
        defined = self._define_line(kind, name, f": {text}")
        if not _has_refs(body):
            self.defined[key] = (defined, node)
        return defined

    def _define_line(self, kind: str, hint: str, definition: str) -> str:
        """Write the line ``<name><rest>`` unless it exists; return its name.  ``hint``: the name wished for."""
        defined = self._definition_name(kind, hint, definition)
        self.definitions.setdefault(defined, defined + definition)
        return defined

    def _until(self, node: Until, name: str, body: Node, end: Text | Pattern) -> str:
        if not is_terminal(body):
            raise GrammarError(f"the body of {name!r} must be a lexeme, because it has a suffix")
        text, _ = self.expr(body, _ALT, (), terminal=True)
        suffix, _ = self.expr(end, _ATOM, (), terminal=True)
        return self._define_line("r", name, f"[suffix={suffix}]: {text}")

    def _sub(self, node: Sub) -> str:
        defined = self._definition_name("r", "sub_" + node.name, node.lark)
        self.subs[defined] = node.lark
        return defined

    def _definition_name(self, kind: str, hint: str, definition: str) -> str:
        clean = _clean(hint)
        defined = self.names_by_line.get((kind + clean, definition))
        if defined is not None:
            return defined
        name = self._unique_name(clean.upper() if kind == "T" else clean)
        self.names_by_line[kind + clean, definition] = name
        return name

    def _unique_name(self, name: str) -> str:
        free, number = name, self.next_number.get(name, 2)
        while free in self.used_names:
            free, number = f"{name}_{number}", number + 1
        self.used_names.add(free)
        self.next_number[name] = number  # the next node of this name does not try all numbers again
        return free

    # -- groups of recursive rules

    def _group(self, node: Group, scope: tuple[_Scope, ...]) -> str:
        key = (id(node), id(scope))
        if key in self.groups:
            return self.groups[key][0]
        names = {name: self._unique_name(_clean(f"{node.name}_{name}")) for name in node.rules}
        inner = (*scope, _Scope(names, {name: rule.parametric for name, rule in node.rules.items()}))
        for name in node.rules:
            self.definitions[names[name]] = ""  # keeps the order of the group
        for name, rule in node.rules.items():
            text, _ = self.expr(rule.body, _ALT, inner)
            head = names[name] + ("::_" if rule.parametric else "")
            self.definitions[names[name]] = f"{head}: {text}"
        text, _ = self.expr(node.start, _ALT, inner)
        start = self._unique_name(_clean(node.name + "_start"))
        self.definitions[start] = f"{start}: {text}"
        self.groups[key] = (start, node, scope)
        return start

    def _ref(self, name: str, argument: str | None, scope: tuple[_Scope, ...]) -> str:
        for level in reversed(scope):
            if name in level.names:
                if level.parametric[name] != (argument is not None):
                    takes, passes = ("no parameter", "one") if argument is not None else ("a parameter", "none")
                    raise GrammarError(f"rule {name!r} takes {takes}, but its reference passes {passes}")
                return level.names[name] if argument is None else f"{level.names[name]}::{argument}"
        raise GrammarError(f"no rule is called {name!r} here")


@dataclass(frozen=True, slots=True)
class _Scope:
    names: Mapping[str, str]
    parametric: Mapping[str, bool]


@lru_cache(maxsize=1024)
def _clean(hint: str) -> str:
    """Return a name that is legal in Lark."""
    clean = re.sub(r"[^a-z0-9]+", "_", hint.lower()).strip("_") or "part"
    return ("n" + clean if clean[0].isdigit() else clean)[:48]


def _has_refs(node: Node) -> bool:
    match node:
        case Ref() | Group():
            return True
        case Seq(parts=parts) | Alt(options=parts) | And(parts=parts):
            return any(_has_refs(part) for part in parts)
        case Repeat(body=body) | Rule(body=body) | When(body=body):
            return _has_refs(body)
        case _:
            return False
