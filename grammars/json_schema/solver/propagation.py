"""Constraint propagation in one form: tightens bounds, applies the consequences of clauses, finds contradictions.

``is_empty`` says whether a conjunction surely has no value that we would write; it may be a bounded search.  A proof
that something holds anyway must be about all values (``for_all=True``): a negated format is written narrower than it
is, and a validator may accept values that we would not write.
"""

from __future__ import annotations

from typing import Protocol

from grammars.json_schema.keywords.objects import cell_value
from grammars.json_schema.shapes.shapes import TRUE, ArrayForm, Clause, Conj, Count, Fact, ObjectForm, conjoin

__all__ = ["IsEmpty", "propagate_array", "propagate_object", "smaller"]


class IsEmpty(Protocol):
    def __call__(self, conj: Conj, /, *, for_all: bool = False) -> bool: ...


def smaller(a: int | None, b: int | None) -> int | None:
    """The smaller of two upper bounds; None: no bound."""
    return a if b is None else b if a is None else min(a, b)


def propagate_array(form: ArrayForm, is_empty: IsEmpty) -> ArrayForm | None:
    """The form with its bounds tightened, or None when surely nothing satisfies it."""
    most, prefix = form.most, form.prefix
    for i, item in enumerate(prefix):
        if most is not None and i >= most:
            break
        if item is None or is_empty(item):
            most = i if most is None else min(most, i)
            break
    if most is not None:
        prefix = prefix[:most]
    other_items = form.items
    if most is None or most > len(prefix):
        if other_items is None or is_empty(other_items):
            most = len(prefix)
    else:
        other_items = None
    least, counts = form.least, []
    for count in form.counts:
        fixed = _tighten_count(count, most)
        if fixed is None:
            return None
        if _is_implied(fixed, prefix, other_items, most, is_empty):
            fixed = Count(TRUE, fixed.least, fixed.most, fixed.start)
        least = max(least, fixed.least + (fixed.start if fixed.least else 0))
        if fixed.item == TRUE and fixed.most is not None:
            most = smaller(most, fixed.start + fixed.most)
        elif fixed.item != TRUE and (fixed.least or fixed.most is not None):
            counts.append(fixed)
    if most is not None and least > most:
        return None
    unique = () if most is not None and most < 2 else form.unique
    return ArrayForm(prefix, other_items, least, most, tuple(dict.fromkeys(counts)), unique, form.evaluated)


def _tighten_count(count: Count, most: int | None) -> Count | None:
    if count.most is not None and count.least > count.most:
        return None
    if most is not None:
        slots = max(0, most - count.start)
        if count.least > slots:
            return None
        if count.most is not None and count.most >= slots:
            count = Count(count.item, count.least, None, count.start)
    return count


def _is_implied(
    count: Count, prefix: tuple[Conj | None, ...], other_items: Conj | None, most: int | None, is_empty: IsEmpty
) -> bool:
    """Whether every item that the count looks at satisfies it already."""
    if not count.item:
        return True
    items = [*prefix[count.start :], *((other_items,) if most is None or most > len(prefix) else ())]
    for item in items:
        for literal in count.item:
            wrong = conjoin(item, (-literal,))
            if wrong is not None and not is_empty(wrong, for_all=True):
                return False
    return bool(items)


def propagate_object(form: ObjectForm, is_empty: IsEmpty) -> ObjectForm | None:
    """The form with the consequences for its keys applied, or None when surely nothing satisfies it."""
    props = dict(form.props)
    for key in sorted(form.required):  # first: contradictions are found soonest here
        conj = props.get(key, TRUE)
        if conj is None or (len(conj) > 1 and is_empty(conj)):
            return None
    for key, conj in props.items():
        if conj is not None and len(conj) > 1 and is_empty(conj):
            props[key] = None
    keys = _KeyPropagation(form, props, is_empty)
    if not keys.run():
        return None
    required, most = keys.required, keys.most
    if most is not None and len(required) > most:
        return None
    if not form.cells and sum(c is not None for c in props.values()) < keys.least:
        return None
    return ObjectForm(props, form.cells, frozenset(required), keys.clauses, keys.least, most, form.late, form.evaluated)


def _sort_key(fact: Fact) -> tuple[str, str, Conj]:
    """A sort key that is the same in every process: emptiness tests number places in the order in which facts come."""
    return fact.kind, repr(fact.what), fact.value


class _KeyPropagation:
    """The conditions across the keys of a form, propagated until nothing further follows."""

    def __init__(self, form: ObjectForm, props: dict[str, Conj | None], is_empty: IsEmpty) -> None:
        self.cells = form.cells
        self.props = props
        self.required = set(form.required)
        self.clauses = form.clauses
        self.least, self.most = form.least, form.most
        self.is_empty = is_empty
        self.has_changed = True  # since the last round began, so that earlier decisions must be made again

    def value(self, key: str) -> Conj | None:
        return self.props[key] if key in self.props else cell_value(self.cells, key)

    def run(self) -> bool:
        """Propagate to a fixed point; False when the conditions contradict each other."""
        while self.has_changed:
            self.has_changed = False
            if any(self.value(key) is None for key in self.required):
                return False
            if self.clauses and not self.reduce():
                return False
        return True

    def reduce(self) -> bool:
        """One round: drop decided clauses, enforce those of one fact; False when a clause cannot be met."""
        out: dict[Clause, None] = {}
        for clause in self.clauses:
            facts = self.undecided_facts(clause)
            if facts is None:
                continue
            if not facts:
                return False
            if len(facts) > 1 or facts[0].kind == "some":
                if not self.restrict_optional(facts):
                    out[frozenset(facts)] = None
            elif not self.require(facts[0]):
                return False
        self.clauses = tuple(out)
        return True

    def restrict_optional(self, facts: list[Fact]) -> bool:
        """Move the clause "absent or valid" into `props`, which says just that of a key that is not required."""
        if len(facts) != 2 or {f.kind for f in facts} != {"has", "lacks"} or facts[0].what != facts[1].what:
            return False
        right = facts[0] if facts[0].kind == "has" else facts[1]
        self.props[right.what] = conjoin(self.value(right.what), right.value)
        self.has_changed = True
        return True

    def undecided_facts(self, clause: Clause) -> list[Fact] | None:
        """The facts of a clause that are not decided yet; None when one of them holds already."""
        facts: list[Fact] = []
        for fact in sorted(clause, key=_sort_key):
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
                return self.decide_has(fact)
            case "least":
                return True if fact.what <= max(self.least, len(self.required)) else None
            case "most":
                return False if fact.what < len(self.required) else None
        return None

    def decide_has(self, fact: Fact) -> bool | None:
        value = self.value(fact.what)
        wanted = conjoin(value, fact.value)
        if value is None or wanted is None or (fact.value and self.is_empty(wanted)):
            return False
        if fact.what not in self.required:
            return None
        return True if all(self.is_implied(value, literal) for literal in fact.value) else None

    def is_implied(self, value: Conj, literal: int) -> bool:
        wrong = conjoin(value, (-literal,))
        return wrong is None or self.is_empty(wrong, for_all=True)

    def require(self, fact: Fact) -> bool:
        self.has_changed = True
        match fact.kind:
            case "has":
                self.props[fact.what] = conjoin(self.value(fact.what), fact.value)
                self.required.add(fact.what)
                return self.props[fact.what] is not None
            case "lacks":
                self.props[fact.what] = None
            case "least":
                self.least = max(self.least, fact.what)
            case "most":
                self.most = fact.what if self.most is None else min(self.most, fact.what)
        return True
