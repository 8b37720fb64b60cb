"""Shortest texts of a grammar's nodes.

`shortest_text` returns None where it is not sure of a text (tokens, sub-grammars, schemas whose keywords constrain
each other).  The text is legal.  It is shortest except for the choice of numbers, and for words so intricate that the
search is limited to those without a backslash, or ends with any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from grammars.regular.languages import Regular, alt, cat, inter, neg, rep, shortest, text, work_budget
from grammars.regular.syntax.rust import InvalidRegex, NotTranslated, language
from grammars.shortest.distinct_texts import distinct_text, has_repeats
from grammars.shortest.instances import PATIENT, TooLarge, Visits, joined, repeated
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
    RuleDef,
    Seq,
    Text,
    When,
    is_terminal,
    seq,
)
from grammars.values.watchers import UniqueWatch, Watcher

__all__ = ["shortest_text"]

_MOST_SEARCHED = 200_000  # parts of languages in all searches together: about 20 ms


def shortest_text(
    node: Node,
    watchers: tuple[Watcher, ...] = (),
    *,
    patient: bool = False,
    hasty: bool = False,
) -> str | None:
    """Return a shortest JSON text that ``node`` writes and ``watchers`` accept; None where none was found.

    ``patient`` searches longer for words: at most half a second instead of some hundredths.  ``hasty`` gives up
    where the shortest text has repeats that are not allowed.
    """
    nodes = next((watcher.nodes for watcher in watchers if isinstance(watcher, UniqueWatch)), None)
    try:
        with work_budget(PATIENT[1] if patient else _MOST_SEARCHED, is_repeatable=True):
            cells = _Cells(patient=patient)
            root = cells.cell(node, {})
            found = cells.least(root)
            if found is None or nodes is None or not has_repeats(found, nodes):
                return found
            if hasty:
                return None
            cells.least()
            found = distinct_text(cells, root, nodes)
            return found if found is not None and not has_repeats(found, nodes) else None
    except (TooLarge, RecursionError, ValueError):
        return None


class _Cells(Visits):
    """A grammar as cells, each a sequence of parts or a choice, and the shortest text of each cell.

    Found by Knuth's generalisation of Dijkstra's algorithm: no text is shorter than its parts, so the shortest of the
    known texts is final, and each cell is visited once for each of its parts.
    """

    def __init__(self, *, patient: bool = False) -> None:
        super().__init__(patient=patient)
        self.parts: list[tuple[int, ...] | None] = []  # of a cell; None where it is a choice
        self.times: list[int] = []  # repeats of the parts
        self.users: list[list[int]] = []
        self.known: list[tuple[int, str, int, int]] = []  # size, text and cell of fixed texts, see `via`
        self.fixed: dict[int, tuple[str | None, Regular | None]] = {}  # of lexemes and schemas, by ids of their nodes
        self.found: list[str | None] = []  # the shortest text of a cell
        self.via: dict[int, int] = {}  # of a choice, the option that its text is of
        self.terms: dict[int, Regular] = {}  # of cells that are lexemes
        self.open_parts: list[int] = []
        self.chosen: list[list[int]] | None = None

    def least(self, wanted: int | None = None) -> str | None:
        """Return the shortest text of the ``wanted`` cell; without one, find those of all cells."""
        if not self.found:
            self.open_parts = [0 if parts is None else len(set(parts)) for parts in self.parts]
            self.found = [None] * len(self.parts)
            heapify(self.known)
        found, heap, open_parts = self.found, self.known, self.open_parts
        while heap and (wanted is None or found[wanted] is None):
            _, text_, at, via = heappop(heap)
            if found[at] is not None:
                continue
            found[at] = text_
            if via >= 0:
                self.via[at] = via
            for user in self.users[at]:
                self.count()
                parts = self.parts[user]
                open_parts[user] -= 1
                if parts is None:
                    heappush(heap, (len(text_.encode()), text_, user, at))
                elif open_parts[user] == 0:
                    whole = repeated(joined([found[part] for part in parts]), self.times[user])
                    if whole is not None:
                        self.count(len(whole))
                        heappush(heap, (len(whole.encode()), whole, user, -1))
        return None if wanted is None else found[wanted]

    def options(self, cell: int) -> Sequence[int]:
        """The options of a choice."""
        if self.chosen is None:
            self.chosen = [[] for _ in self.parts]
            for at, users in enumerate(self.users):
                for user in users:
                    if self.parts[user] is None:
                        self.chosen[user].append(at)
        return self.chosen[cell]

    def new(self, parts: Iterable[int] | None, times: int = 1) -> int:
        self.count()
        at = len(self.parts)
        self.parts.append(None if parts is None else tuple(parts))
        self.times.append(times)
        self.users.append([])
        for part in set(self.parts[at] or ()):
            self.users[part].append(at)
        return at

    def constant(self, word: str | None) -> int:
        """Return the cell of a text; for None, a cell without a text."""
        at = self.new(None)
        if word is not None:
            self.known.append((len(word.encode()), word, at, -1))
        return at

    def cell(self, node: Node, scope: Mapping[str, int | RuleDef]) -> int:
        """Return the cell of a node; ``scope`` holds the rules around it, plain ones as cells."""
        match node:
            case Text(text=word):
                return self.constant(word)
            case Seq(parts=nodes):
                inner = [self.cell(part, scope) for part in nodes]
                return self.new(inner) if inner else self.constant("")
            case Alt(options=nodes):
                return self.choice([self.cell(option, scope) for option in nodes])
            case Repeat(body=body, least=least):
                return self.new([self.cell(body, scope)], least) if least else self.constant("")
            case Rule(body=body):
                return self.cell(body, scope)
            case Group(start=start, rules=rules):
                scope = {**scope, **{n: rule if rule.parametric else self.new(None) for n, rule in rules.items()}}
                for name, rule in rules.items():
                    at = scope[name]
                    if isinstance(at, int):
                        self.users[self.cell(rule.body, scope)].append(at)
                return self.cell(start, scope)
            case Ref(name=name, argument=None):
                named = scope.get(name)
                return named if isinstance(named, int) else self.constant(None)
            case Ref():
                return self.counted(node, 0, scope)
        if id(node) not in self.fixed:
            self.fixed[id(node)] = self.fixed_text(node)
        fixed, term = self.fixed[id(node)]
        at = self.constant(fixed)
        if term is not None:
            self.terms[at] = term
        return at

    def counted(self, ref: Ref, value: int, scope: Mapping[str, int | RuleDef]) -> int:
        """Return the cell of a parametric rule entered from one whose parameter is ``value``, a set of options.

        What must be in the set is written first, in the order of the options: no order is shorter.  Else the shortest
        constant is written, which is best as long as options do not close others.
        """
        rule, inner = scope.get(ref.name), _argument(ref.argument, value)
        if not isinstance(rule, RuleDef) or inner is None:
            return self.constant(None)
        ends: list[Node] = []
        open_: list[tuple[Node, Ref]] = []
        for option in _options(rule):
            if isinstance(option, When):
                if not _holds(option.condition, inner):
                    continue
                option = option.body
            parts = option.parts if isinstance(option, Seq) else (option,)
            further = parts[-1] if parts and isinstance(parts[-1], Ref) else None
            if further is None:
                ends.append(option)
            else:
                open_.append((seq(*parts[:-1]), further))
        if ends:
            return self.choice([self.cell(end, scope) for end in ends])
        needed = {f"set_bit({i})" for i in range(_num_needed(rule, scope))}
        some = [option for option in open_ if option[1].argument in needed][:1]
        if not some:
            heads = [_constant(head) for head, _ in open_]
            texts = [text for text in heads if text is not None]
            some = [open_[heads.index(min(texts, key=lambda text: len(text.encode())))]] if texts else open_
        cells = [self.new((self.cell(head, scope), self.counted(further, inner, scope))) for head, further in some]
        return self.choice(cells)

    def choice(self, options: Iterable[int]) -> int:
        at = self.new(None)
        for option in set(options):
            self.users[option].append(at)
        return at

    def fixed_text(self, node: Node) -> tuple[str | None, Regular | None]:
        """Return the shortest text of a lexeme, and its language."""
        term = _term(node) if is_terminal(node) else None
        return (self.word(term) if term is not None else None), term


def _options(rule: RuleDef) -> Sequence[Node]:
    return rule.body.options if isinstance(rule.body, Alt) else (rule.body,)


def _num_needed(rule: RuleDef, scope: Mapping[str, int | RuleDef]) -> int:
    """Return the number of first options that must be in the set before a rule, or one that follows it, ends."""
    options = [*_options(rule)]
    for option in tuple(options):
        body = option.body if isinstance(option, When) else option
        last = body.parts[-1] if isinstance(body, Seq) and body.parts else body
        follower = scope.get(last.name) if isinstance(last, Ref) else None
        options += _options(follower) if isinstance(follower, RuleDef) else ()
    conditions = (option.condition for option in options if isinstance(option, When))
    found = (re.fullmatch(r"is_ones\(\[0:(\d+)\]\)", condition) for condition in conditions)
    return max((int(match[1]) for match in found if match), default=0)


def _constant(node: Node) -> str | None:
    """The shortest text of a node without rules: texts, and optional white space."""
    match node:
        case Text(text=word):
            return word
        case Seq(parts=parts):
            return joined([_constant(part) for part in parts])
        case Repeat(least=0):
            return ""
    term = _term(node) if is_terminal(node) else None
    found = None if term is None else shortest(term)
    return found if isinstance(found, str) else None


def _argument(argument: str | None, value: int) -> int | None:
    """The parameter of a rule entered from one whose own is ``value``; None for an unknown form of argument."""
    if argument == "_":
        return value
    if argument is not None and (found := re.fullmatch(r"set_bit\((\d+)\)", argument)):
        return value | 1 << int(found[1])
    return int(argument, 16) if argument is not None and re.fullmatch("0x[0-9a-f]+", argument) else None


def _holds(condition: str, value: int) -> bool:
    """Whether a condition of `grammars.json_schema.grammar.emit` holds; False for other conditions."""
    if found := re.fullmatch(r"bit_clear\((\d+)\)", condition):
        return not value >> int(found[1]) & 1
    if found := re.fullmatch(r"is_ones\(\[0:(\d+)\]\)", condition):
        return not ~value & (1 << int(found[1])) - 1
    if found := re.fullmatch(r"bit_count_(ge|lt)\(\[0:(\d+)\], (\d+)\)", condition):
        count = (value & (1 << int(found[2])) - 1).bit_count()
        return (count >= int(found[3])) == (found[1] == "ge")
    return False


def _term(node: Node) -> Regular | None:
    """The language of a terminal node."""
    parts: list[Regular | None]
    match node:
        case Text(text=word, ignore_case=False):
            return text(word)
        case Pattern(regex=regex):
            try:
                return language(regex)
            except (InvalidRegex, NotTranslated):
                return None
        case Lexeme(body=body):
            return _term(body)
        case Not(body=body):
            inner = _term(body)
            return None if inner is None else neg(inner)
        case Repeat(body=body, least=least, most=most):
            inner = _term(body)
            return None if inner is None else rep(inner, least, most)
        case And(parts=nodes) | Seq(parts=nodes) | Alt(options=nodes):
            parts = [_term(part) for part in nodes]
            whole = [part for part in parts if part is not None]
            if len(whole) < len(parts):
                return None
            return {And: inter, Seq: cat, Alt: alt}[type(node)](*whole)
    return None
