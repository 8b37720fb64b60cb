"""Forms with what they imply worked out: bounds drawn tight, debts between keys paid, contradictions found.

``is_empty`` says whether a conjunction surely has no value that we would write; it may be a bounded search.  As a
proof that something holds anyway it must be asked for all values (``to_write=False``): a negated format is written
narrower than it is, and what we would not write may be there all the same.
"""

from __future__ import annotations

from typing import Protocol

from grammars.json_schema.keywords.objects import lookup
from grammars.json_schema.shapes.shapes import TRUE, ArrayForm, Clause, Conj, Count, Fact, ObjectForm, both

__all__ = ["IsEmpty", "settle_array", "settle_object", "smaller"]


class IsEmpty(Protocol):
    def __call__(self, conj: Conj, /, *, to_write: bool = True) -> bool: ...


def smaller(a: int | None, b: int | None) -> int | None:
    """The smaller of two bounds; None is no bound."""
    return a if b is None else b if a is None else min(a, b)


def settle_array(form: ArrayForm, is_empty: IsEmpty) -> ArrayForm | None:
    """The form with its bounds drawn tight, or None when it surely holds nothing."""
    most, prefix = form.most, form.prefix
    for i, item in enumerate(prefix):
        if most is not None and i >= most:
            break
        if item is None or is_empty(item):
            most = i if most is None else min(most, i)
            break
    if most is not None:
        prefix = prefix[:most]
    rest = form.rest
    if most is None or most > len(prefix):
        if rest is None or is_empty(rest):
            most = len(prefix)
    else:
        rest = None
    least, counts = form.least, []
    for count in form.counts:
        fixed = _settle_count(count, most)
        if fixed is None:
            return None
        if _implied(fixed, prefix, rest, most, is_empty):
            fixed = Count(TRUE, fixed.least, fixed.most, fixed.start)
        least = max(least, fixed.least + (fixed.start if fixed.least else 0))
        if fixed.item == TRUE and fixed.most is not None:
            most = smaller(most, fixed.start + fixed.most)
        elif fixed.item != TRUE and (fixed.least or fixed.most is not None):
            counts.append(fixed)
    if most is not None and least > most:
        return None
    unique = () if most is not None and most < 2 else form.unique
    return ArrayForm(prefix, rest, least, most, tuple(dict.fromkeys(counts)), unique, form.seen)


def _settle_count(count: Count, most: int | None) -> Count | None:
    if count.most is not None and count.least > count.most:
        return None
    if most is not None:
        slots = max(0, most - count.start)
        if count.least > slots:
            return None
        if count.most is not None and count.most >= slots:
            count = Count(count.item, count.least, None, count.start)
    return count


def _implied(
    count: Count, prefix: tuple[Conj | None, ...], rest: Conj | None, most: int | None, is_empty: IsEmpty
) -> bool:
    """Does every item that the count looks at satisfy it anyway?"""
    if not count.item:
        return True
    items = [*prefix[count.start :], *((rest,) if most is None or most > len(prefix) else ())]
    for item in items:
        for literal in count.item:
            wrong = both(item, (-literal,))
            if wrong is not None and not is_empty(wrong, to_write=False):
                return False
    return bool(items)


def settle_object(form: ObjectForm, is_empty: IsEmpty) -> ObjectForm | None:
    """The form with what its keys imply worked out, or None when it surely holds nothing."""
    props = dict(form.props)
    for key in sorted(form.required):  # first: what surely holds nothing is found soonest here
        conj = props.get(key, TRUE)
        if conj is None or (len(conj) > 1 and is_empty(conj)):
            return None
    for key, conj in props.items():
        if conj is not None and len(conj) > 1 and is_empty(conj):
            props[key] = None
    debts = _Debts(form, props, is_empty)
    if not debts.settle():
        return None
    required, most = debts.required, debts.most
    if most is not None and len(required) > most:
        return None
    if not form.cells and sum(c is not None for c in props.values()) < debts.least:
        return None
    return ObjectForm(props, form.cells, frozenset(required), debts.clauses, debts.least, most, form.late, form.seen)


def _order(fact: Fact) -> tuple[str, str, Conj]:
    """Facts in the same order in every process: what is asked of them numbers places as it comes."""
    return fact.kind, repr(fact.what), fact.value


class _Debts:
    """What a form asks across keys, worked out until nothing follows any more."""

    def __init__(self, form: ObjectForm, props: dict[str, Conj | None], is_empty: IsEmpty) -> None:
        self.cells = form.cells
        self.props = props
        self.required = set(form.required)
        self.clauses = form.clauses
        self.least, self.most = form.least, form.most
        self.is_empty = is_empty
        self.has_paid = True  # since the last round began: what was decided before may be otherwise now

    def value(self, key: str) -> Conj | None:
        return self.props[key] if key in self.props else lookup(self.cells, key)

    def settle(self) -> bool:
        """False when the debts contradict each other."""
        while self.has_paid:
            self.has_paid = False
            if any(self.value(key) is None for key in self.required):
                return False
            if self.clauses and not self.reduce():
                return False
        return True

    def reduce(self) -> bool:
        """One round: drop what is decided, pay clauses of one fact; False when a clause cannot be met."""
        out: dict[Clause, None] = {}
        for clause in self.clauses:
            facts = self.open_facts(clause)
            if facts is None:
                continue
            if not facts:
                return False
            if len(facts) > 1 or facts[0].kind == "some":
                if not self.optional(facts):
                    out[frozenset(facts)] = None
            elif not self.pay(facts[0]):
                return False
        self.clauses = tuple(out)
        return True

    def optional(self, facts: list[Fact]) -> bool:
        """Pay "not there, or right": it is what `props` says of a key that is not required."""
        if len(facts) != 2 or {f.kind for f in facts} != {"has", "lacks"} or facts[0].what != facts[1].what:
            return False
        right = facts[0] if facts[0].kind == "has" else facts[1]
        self.props[right.what] = both(self.value(right.what), right.value)
        self.has_paid = True
        return True

    def open_facts(self, clause: Clause) -> list[Fact] | None:
        """The facts of a clause that may still go either way; None when one of them holds already."""
        facts: list[Fact] = []
        for fact in sorted(clause, key=_order):
            decided = self.decided(fact)
            if decided:
                return None
            if decided is None:
                facts.append(fact)
        if len(facts) > 1:
            present = {f.what for f in facts if f.kind == "has" and f.value == TRUE}
            facts = [f for f in facts if f.kind != "has" or f.value == TRUE or f.what not in present]
        return facts

    def decided(self, fact: Fact) -> bool | None:
        match fact.kind:
            case "lacks":
                return False if fact.what in self.required else True if self.value(fact.what) is None else None
            case "has":
                return self.has(fact)
            case "least":
                return True if fact.what <= max(self.least, len(self.required)) else None
            case "most":
                return False if fact.what < len(self.required) else None
        return None

    def has(self, fact: Fact) -> bool | None:
        value = self.value(fact.what)
        wanted = both(value, fact.value)
        if value is None or wanted is None or (fact.value and self.is_empty(wanted)):
            return False
        if fact.what not in self.required:
            return None
        return True if all(self.implied(value, literal) for literal in fact.value) else None

    def implied(self, value: Conj, literal: int) -> bool:
        wrong = both(value, (-literal,))
        return wrong is None or self.is_empty(wrong, to_write=False)

    def pay(self, fact: Fact) -> bool:
        self.has_paid = True
        match fact.kind:
            case "has":
                self.props[fact.what] = both(self.value(fact.what), fact.value)
                self.required.add(fact.what)
                return self.props[fact.what] is not None
            case "lacks":
                self.props[fact.what] = None
            case "least":
                self.least = max(self.least, fact.what)
            case "most":
                self.most = fact.what if self.most is None else min(self.most, fact.what)
        return True
