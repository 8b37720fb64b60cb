"""Member-order automata of object forms: listed keys in one order, then the others, with the conditions across keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from grammars.json_schema.grammar.member_order import MemberAutomaton, MemberEdge, MemberNode, NodeBuilder
from grammars.json_schema.shapes.shapes import TRUE, Clause, Conj, Fact, ObjectForm, conjoin
from grammars.regular.finite import count_words
from grammars.regular.terms import ALL, Regular, inter, matches, neg, words

__all__ = ["key_orders", "object_automaton"]


class _Remaining(NamedTuple):
    """The conditions that an object still has to meet before entry ``at``."""

    at: int
    clauses: frozenset[Clause]
    least: int
    most: int | None


def key_orders(form: ObjectForm, schema_order: list[str]) -> list[list[str]]:
    """The orders of a form's keys: that of the schema, and the form's own if it differs."""
    named = form.required.union(*({f.what for f in c if f.kind in ("has", "lacks")} for c in form.clauses))
    extra = named.difference(form.props)
    late = [key for key in form.late if key in extra]
    listed = [*form.props, *late, *sorted(extra.difference(late))]
    rank = {key: i for i, key in enumerate(schema_order)}
    first = sorted(listed, key=lambda key: rank.get(key, len(rank)))
    written = [key for key in listed if form.props.get(key, TRUE) is not None]
    return [first] if [key for key in first if form.props.get(key, TRUE) is not None] == written else [first, listed]


def object_automaton(form: ObjectForm, order: list[str], limit: int) -> MemberAutomaton:
    """The automaton of a form; the keys of ``order`` (see `key_orders`) come first, other keys after them."""
    props: dict[str, Conj | None] = dict(form.props)
    for key in order:
        if key not in props:
            props[key] = next((conj for language, conj in form.cells if matches(language, key)), None)
    entries = [(key, conj) for key in order if (conj := props[key]) is not None]
    taken = neg(words(props)) if props else ALL
    others = [(inter(language, taken), conj) for language, conj in form.cells]
    return _ObjectAutomaton(form, entries, others, limit).automaton()


class _ObjectAutomaton:
    def __init__(
        self, form: ObjectForm, entries: list[tuple[str, Conj]], others: list[tuple[Regular, Conj]], limit: int
    ) -> None:
        self.form = form
        self.entries = entries
        self.others = others
        self.builder = NodeBuilder(limit)
        self._most_others: float | None = None
        self._rank = _ranks(form.clauses)
        self._met: dict[tuple[Regular, tuple[Regular, ...]], Regular] = {}
        self.required_after = [0] * (len(entries) + 1)
        for i in range(len(entries) - 1, -1, -1):
            self.required_after[i] = self.required_after[i + 1] + (entries[i][0] in form.required)

    def automaton(self) -> MemberAutomaton:
        start = self._remaining_key(0, frozenset(self.form.clauses), self.form.least, self.form.most)
        return MemberAutomaton([MemberNode()] if start is None else self.builder.build(start, self._node))

    def _remaining_key(self, index: int, clauses: frozenset[Clause], least: int, most: int | None) -> _Remaining | None:
        """The conditions without bounds that no longer matter; None when they cannot be met."""
        room, need = len(self.entries) - index, self.required_after[index]
        if most is not None:
            if most < need:
                return None
            if not self.others and most >= room:
                most = None
        if least <= need:
            least = 0
        elif not self.others and least > room:
            return None
        if most is not None and least > most:
            return None
        return _Remaining(index, clauses, least, most)

    def _node(self, key: object) -> MemberNode:
        assert isinstance(key, _Remaining)
        remaining = key
        if remaining.at == len(self.entries):
            return self._unlisted_keys(remaining)
        name, value = self.entries[remaining.at]
        node = MemberNode()
        for conj, clauses in self._written(name, value, remaining.clauses):
            after = self._after(remaining, clauses, written=True)
            if after is not None:
                node.edges.append(MemberEdge(conj, self.builder.number(after), key=name))
        if name not in self.form.required:
            skipped = _without(remaining.clauses, name)
            after = None if skipped is None else self._after(remaining, skipped, written=False)
            if after is not None:
                node.skip = self.builder.number(after)
        return node

    def _after(self, remaining: _Remaining, clauses: frozenset[Clause], *, written: bool) -> _Remaining | None:
        if not written:
            return self._remaining_key(remaining.at + 1, clauses, remaining.least, remaining.most)
        if remaining.most == 0:
            return None
        most = None if remaining.most is None else remaining.most - 1
        return self._remaining_key(remaining.at + 1, clauses, max(0, remaining.least - 1), most)

    def _written(self, name: str, value: Conj, clauses: frozenset[Clause]) -> Iterator[tuple[Conj, frozenset[Clause]]]:
        """The key's value, narrowed to each choice of undecided facts, with the clauses that are left then."""
        wanted = {
            f.value
            for clause in clauses
            for f in clause
            if f.value and (f.what == name if f.kind == "has" else f.kind == "some" and matches(f.what, name))
        }
        for conj, chosen in _choices(value, sorted(wanted)):  # sorted: every process writes the same grammar
            self.builder.work.spend(len(clauses))
            after = _with(clauses, name, chosen)
            if after is not None:
                yield conj, after

    def _unlisted_keys(self, remaining: _Remaining) -> MemberNode:
        """Keys that are not listed, in any order."""
        if remaining.least > 1 and remaining.least > self.most_others:
            return MemberNode()  # there are fewer keys
        if not remaining.clauses:
            if not self.others or remaining.most == 0:
                return MemberNode(final=remaining.least == 0)
            edges = tuple(MemberEdge(conj, 0, keys=language) for language, conj in self.others)
            return MemberNode(final=remaining.least == 0, run=(edges, max(remaining.least, 1), remaining.most))
        final = remaining.least == 0 and all(any(f.kind == "most" for f in clause) for clause in remaining.clauses)
        node = MemberNode(final=final)
        if remaining.most == 0:
            return node
        most = None if remaining.most is None else remaining.most - 1
        open_ = sorted(
            {f for clause in remaining.clauses for f in clause if f.kind == "some"}, key=self._rank.__getitem__
        )
        for language, value in self.others:
            for conj, chosen in _choices(value, open_):
                self.builder.work.spend(1 + len(remaining.clauses))
                after = _counted(remaining.clauses, frozenset(chosen))
                if after is None:
                    continue
                keys = self._keys(language, tuple(f.what for f in chosen))
                target = _Remaining(remaining.at, after, max(0, remaining.least - 1), most)
                node.edges.append(MemberEdge(conj, self.builder.number(target), keys=keys))
        return node

    @property
    def most_others(self) -> float:
        """The number of keys that are not listed, infinite where it is not counted."""
        if self._most_others is None:
            count = count_words(language for language, _ in self.others)
            self._most_others = math.inf if count is None else count
        return self._most_others

    def _keys(self, language: Regular, also: tuple[Regular, ...]) -> Regular:
        """The intersection of the languages, cached: there are few combinations, needed at every node."""
        keys = self._met.get((language, also))
        if keys is None:
            keys = self._met[language, also] = inter(language, *also)
        return keys


def _ranks(clauses: tuple[Clause, ...]) -> dict[Fact, int]:
    """The facts about keys that are not listed, in an order that is the same in every process."""
    first: dict[Fact, int] = {}
    for i, clause in enumerate(clauses):
        for fact in clause:
            if fact.kind == "some":
                first.setdefault(fact, i)
    order = sorted(first, key=lambda f: (f.value, f.what.size, first[f], str(f.what)))
    return {fact: rank for rank, fact in enumerate(order)}


_MAX_CHOICES = 5  # facts about one value whose every combination is tried; beyond, each alone and all together


def _choices(value: Conj, wanted: list[Any]) -> Iterator[tuple[Conj, list[Any]]]:
    """The value as it is, and narrowed to each set of ``wanted`` (conjunctions, or facts with one)."""
    count = len(wanted)
    if count <= _MAX_CHOICES:
        subsets = [[wanted[i] for i in range(count) if bits >> i & 1] for bits in range(1 << count)]
    else:
        subsets = [[], *([w] for w in wanted), wanted]
    for chosen in subsets:
        conj: Conj | None = value
        for choice in chosen:
            conj = conjoin(conj, choice.value if isinstance(choice, Fact) else choice)
        if conj is not None:
            yield conj, chosen


def _without(clauses: frozenset[Clause], name: str) -> frozenset[Clause] | None:
    """The clauses left when the key is not written; None when one can no longer be met."""
    out: set[Clause] = set()
    for clause in clauses:
        if any(f.kind == "lacks" and f.what == name for f in clause):
            continue
        remaining = frozenset(f for f in clause if f.kind != "has" or f.what != name)
        if not remaining:
            return None
        out.add(remaining)
    return frozenset(out)


def _with(clauses: frozenset[Clause], name: str, chosen: list[Conj]) -> frozenset[Clause] | None:
    """The clauses left when the key is written with a value that satisfies ``chosen``."""
    out: set[Clause] = set()
    for clause in clauses:
        remaining: set[Fact] = set()
        for fact in clause:
            about = fact.what == name if fact.kind in ("has", "lacks") else False
            if fact.kind == "has" and about:
                if not fact.value or fact.value in chosen:
                    break
            elif fact.kind == "some" and matches(fact.what, name) and (not fact.value or fact.value in chosen):
                break
            elif not about:
                remaining.add(fact)
        else:
            out.add(frozenset(remaining))
    return _counted(frozenset(out), frozenset())


def _counted(clauses: frozenset[Clause], satisfied: frozenset[Fact]) -> frozenset[Clause] | None:
    """The clauses left after one more key: facts in ``satisfied`` hold, counts go down by one."""
    out: set[Clause] = set()
    for clause in clauses:
        if not satisfied.isdisjoint(clause):
            continue
        remaining: set[Fact] = set()
        met = False
        for fact in clause:
            if fact.kind in ("least", "most"):
                fact = Fact(fact.kind, fact.what - 1)
                met = met or (fact.kind == "least" and fact.what <= 0)
                if fact.what < 0:
                    continue
            remaining.add(fact)
        if met:
            continue
        if not remaining:
            return None
        out.add(frozenset(remaining))
    return frozenset(out)
