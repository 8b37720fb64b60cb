"""Object forms as tracks: listed keys in one order, then the others, with what the keys owe one another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from grammars.regular.finite import number_of_words
from grammars.regular.languages import ALL, Regular, inter, matches, neg, words
from grammars.json_schema.shapes.shapes import TRUE, Clause, Conj, Fact, ObjectForm, both
from grammars.json_schema.tracks import Builder, Edge, Node, Track

__all__ = ["key_orders", "narrow", "object_track"]


class _Left(NamedTuple):
    """What an object still owes before entry ``at``."""

    at: int
    clauses: frozenset[Clause]
    least: int
    most: int | None


def key_orders(form: ObjectForm, naming: list[str]) -> list[list[str]]:
    """The orders in which a form's keys may come: the schema's, and the form's own where it is another."""
    named = form.required.union(*({f.what for f in c if f.kind in ("has", "lacks")} for c in form.clauses))
    extra = named.difference(form.props)
    late = [key for key in form.late if key in extra]
    own = [*form.props, *late, *sorted(extra.difference(late))]
    rank = {key: i for i, key in enumerate(naming)}
    first = sorted(own, key=lambda key: rank.get(key, len(rank)))
    written = [key for key in own if form.props.get(key, TRUE) is not None]
    return [first] if [key for key in first if form.props.get(key, TRUE) is not None] == written else [first, own]


def object_track(form: ObjectForm, order: list[str], limit: int) -> Track:
    """The track of a form; the keys of ``order`` (see `key_orders`) come first, other keys after them."""
    props: dict[str, Conj | None] = dict(form.props)
    for key in order:
        if key not in props:
            props[key] = next((conj for language, conj in form.cells if matches(language, key)), None)
    entries = [(key, conj) for key in order if (conj := props[key]) is not None]
    taken = neg(words(props)) if props else ALL
    others = [(inter(language, taken), conj) for language, conj in form.cells]
    return _ObjectTrack(form, entries, others, limit).track()


def narrow(form: ObjectForm) -> ObjectForm | None:
    """The form with each clause met by one fact, chosen so that one key meets many; None without clauses.

    What is left is smaller, never larger: the way out when deciding the clauses key by key takes too many nodes.
    """
    if not form.clauses:
        return None
    votes: dict[Fact, int] = {}
    for clause in form.clauses:
        for fact in clause:
            if fact.kind == "has":
                votes[fact] = votes.get(fact, 0) + 1
    chosen = {
        max(clause, key=lambda f: (votes.get(f, 0), f.kind == "lacks", str(f.what), f.kind, f.value))
        for clause in form.clauses
    }
    met = sorted(chosen, key=lambda f: (str(f.what), f.kind, f.value))
    return replace(form, clauses=tuple(frozenset((fact,)) for fact in met))


class _ObjectTrack:
    def __init__(
        self, form: ObjectForm, entries: list[tuple[str, Conj]], others: list[tuple[Regular, Conj]], limit: int
    ) -> None:
        self.form = form
        self.entries = entries
        self.others = others
        self.number = Builder(limit)
        self._most_others: float | None = None
        self._rank = _ranks(form.clauses)
        self._met: dict[tuple[Regular, tuple[Regular, ...]], Regular] = {}
        self.required_after = [0] * (len(entries) + 1)
        for i in range(len(entries) - 1, -1, -1):
            self.required_after[i] = self.required_after[i + 1] + (entries[i][0] in form.required)

    def track(self) -> Track:
        start = self._tight(0, frozenset(self.form.clauses), self.form.least, self.form.most)
        return Track([Node()] if start is None else self.number.build(start, self._node))

    def _tight(self, index: int, clauses: frozenset[Clause], least: int, most: int | None) -> _Left | None:
        """The debts with bounds that no longer matter dropped; None when they cannot be paid."""
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
        return _Left(index, clauses, least, most)

    def _node(self, key: object) -> Node:
        assert isinstance(key, _Left)
        left = key
        if left.at == len(self.entries):
            return self._rest(left)
        name, value = self.entries[left.at]
        node = Node()
        for conj, clauses in self._written(name, value, left.clauses):
            after = self._after(left, clauses, written=True)
            if after is not None:
                node.edges.append(Edge(conj, self.number(after), key=name))
        if name not in self.form.required:
            skipped = _without(left.clauses, name)
            after = None if skipped is None else self._after(left, skipped, written=False)
            if after is not None:
                node.skip = self.number(after)
        return node

    def _after(self, left: _Left, clauses: frozenset[Clause], *, written: bool) -> _Left | None:
        if not written:
            return self._tight(left.at + 1, clauses, left.least, left.most)
        if left.most == 0:
            return None
        most = None if left.most is None else left.most - 1
        return self._tight(left.at + 1, clauses, max(0, left.least - 1), most)

    def _written(self, name: str, value: Conj, clauses: frozenset[Clause]) -> Iterator[tuple[Conj, frozenset[Clause]]]:
        """The values that the key may have, by which open facts they satisfy, with the clauses left then."""
        wanted = {
            f.value
            for clause in clauses
            for f in clause
            if f.value and (f.what == name if f.kind == "has" else f.kind == "some" and matches(f.what, name))
        }
        for conj, chosen in _choices(value, sorted(wanted)):  # sorted: every process writes the same grammar
            self.number.spend(len(clauses))
            after = _with(clauses, name, chosen)
            if after is not None:
                yield conj, after

    def _rest(self, left: _Left) -> Node:
        """Keys that are not listed, in any order."""
        if left.least > 1 and left.least > self.most_others:
            return Node()  # there are not so many
        if not left.clauses:
            if not self.others or left.most == 0:
                return Node(final=left.least == 0)
            edges = tuple(Edge(conj, 0, keys=language) for language, conj in self.others)
            return Node(final=left.least == 0, run=(edges, max(left.least, 1), left.most))
        final = left.least == 0 and all(any(f.kind == "most" for f in clause) for clause in left.clauses)
        node = Node(final=final)
        if left.most == 0:
            return node
        most = None if left.most is None else left.most - 1
        open_ = sorted({f for clause in left.clauses for f in clause if f.kind == "some"}, key=self._rank.__getitem__)
        for language, value in self.others:
            for conj, chosen in _choices(value, open_):
                self.number.spend(1 + len(left.clauses))
                after = _counted(left.clauses, frozenset(chosen))
                if after is None:
                    continue
                keys = self._keys(language, tuple(f.what for f in chosen))
                target = _Left(left.at, after, max(0, left.least - 1), most)
                node.edges.append(Edge(conj, self.number(target), keys=keys))
        return node

    @property
    def most_others(self) -> float:
        """How many keys there are that are not listed, as far as they are counted."""
        if self._most_others is None:
            count = number_of_words(language for language, _ in self.others)
            self._most_others = math.inf if count is None else count
        return self._most_others

    def _keys(self, language: Regular, also: tuple[Regular, ...]) -> Regular:
        """What is in all of the languages: few combinations, asked for at every node."""
        found = self._met.get((language, also))
        if found is None:
            found = self._met[language, also] = inter(language, *also)
        return found


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
    """The value as it is, and narrowed to each set of ``wanted`` (conjunctions, or facts that carry one)."""
    count = len(wanted)
    if count <= _MAX_CHOICES:
        subsets = [[wanted[i] for i in range(count) if bits >> i & 1] for bits in range(1 << count)]
    else:
        subsets = [[], *([w] for w in wanted), wanted]
    for chosen in subsets:
        conj: Conj | None = value
        for one in chosen:
            conj = both(conj, one.value if isinstance(one, Fact) else one)
        if conj is not None:
            yield conj, chosen


def _without(clauses: frozenset[Clause], name: str) -> frozenset[Clause] | None:
    """The clauses left when the key is not written; None when one can no longer be met."""
    out: set[Clause] = set()
    for clause in clauses:
        if any(f.kind == "lacks" and f.what == name for f in clause):
            continue
        rest = frozenset(f for f in clause if f.kind != "has" or f.what != name)
        if not rest:
            return None
        out.add(rest)
    return frozenset(out)


def _with(clauses: frozenset[Clause], name: str, chosen: list[Conj]) -> frozenset[Clause] | None:
    """The clauses left when the key is written with a value that satisfies ``chosen``."""
    out: set[Clause] = set()
    for clause in clauses:
        rest: set[Fact] = set()
        for fact in clause:
            about = fact.what == name if fact.kind in ("has", "lacks") else False
            if fact.kind == "has" and about:
                if not fact.value or fact.value in chosen:
                    break
            elif fact.kind == "some" and matches(fact.what, name) and (not fact.value or fact.value in chosen):
                break
            elif not about:
                rest.add(fact)
        else:
            out.add(frozenset(rest))
    return _counted(frozenset(out), frozenset())


def _counted(clauses: frozenset[Clause], paid: frozenset[Fact]) -> frozenset[Clause] | None:
    """The clauses left after one more key: ``paid`` facts hold, counts go down by one."""
    out: set[Clause] = set()
    for clause in clauses:
        if not paid.isdisjoint(clause):
            continue
        rest: set[Fact] = set()
        met = False
        for fact in clause:
            if fact.kind in ("least", "most"):
                fact = Fact(fact.kind, fact.what - 1)
                met = met or (fact.kind == "least" and fact.what <= 0)
                if fact.what < 0:
                    continue
            rest.add(fact)
        if met:
            continue
        if not rest:
            return None
        out.add(frozenset(rest))
    return frozenset(out)
