"""Rows of the report for what stands around a row: the keywords that lean on a relaxed part, the words as written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from grammars.values.json_pointer import step_into, unescaped
from grammars.limits.schema_limits import check_deadline
from grammars.json_schema.document.places import OLDER, written_word
from grammars.values.report import Outcome, ReportRow
from grammars.json_schema.solver.solver import Space

__all__ = ["as_written", "leaning"]

#: Keywords of which a validator does not say what inside them is broken.
_OPAQUE = frozenset(("not", "if", "oneOf", "contains", "unevaluatedProperties", "unevaluatedItems"))
#: Keywords that hold one schema, a list of them, or some by name.
_SINGLE = _OPAQUE | {"then", "else", "propertyNames", "additionalProperties", "additionalItems"}
_LISTED = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies"))

_KEYS, _ITEMS = ("unevaluatedProperties",), ("unevaluatedItems",)
#: What else may be broken where a part within a keyword is: what it evaluates is not evaluated then.
_BROKEN_BESIDE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "if", "then", "else", "$ref"), _KEYS + _ITEMS),
    **dict.fromkeys(("dependentSchemas", "dependencies", "additionalProperties", "unevaluatedProperties"), _KEYS),
    **dict.fromkeys(("additionalItems", "unevaluatedItems"), _ITEMS),
    "contains": ("minContains", "maxContains", *_ITEMS),
}
#: And where the keyword itself is not enforced.
_BROKEN_BESIDE_ITSELF: dict[str, tuple[str, ...]] = {
    **_BROKEN_BESIDE,
    **dict.fromkeys(("properties", "patternProperties"), _KEYS),
    **dict.fromkeys(("prefixItems", "items"), _ITEMS),
}
_REASON = "leans on a part that is relaxed"


def leaning(space: Space, rows: Iterable[ReportRow]) -> Iterator[ReportRow]:
    """Relaxed rows for the keywords that lean on what is relaxed, by way of references too.

    Those around it that are broken as a whole, and those beside the ones around it that are broken with them: the
    counts of ``contains``, and what must hold of the unevaluated.
    """
    relaxed = [row for row in rows if row.outcome is Outcome.RELAXED]
    if not relaxed:
        return
    known = _Known(space)
    for row in relaxed:
        beside = _BROKEN_BESIDE_ITSELF.get(row.keyword, ())
        yield from known.rows(row.pointer, (word for word in beside if word != row.keyword))
    todo = list(dict.fromkeys(row.pointer for row in relaxed))
    seen, done = set(todo), set[tuple[str, str]]()
    for pointer in todo:
        check_deadline()
        for holder, keyword in known.around(pointer):
            if keyword is None:
                for place in known.references.get(holder, ()):
                    yield from known.rows(place, _BROKEN_BESIDE["$ref"])
                    if place not in seen:
                        seen.add(place)
                        todo.append(place)
            elif (holder, keyword) not in done:
                done.add((holder, keyword))
                if keyword in _OPAQUE:
                    yield ReportRow(holder, keyword, Outcome.RELAXED, _REASON)
                yield from known.rows(holder, _BROKEN_BESIDE.get(keyword, ()))


class _Known:
    """The schemas that were looked at, by their pointers."""

    def __init__(self, space: Space) -> None:
        documents = space.documents
        self.references: dict[str, list[str]] = {}  # the places that refer to a schema
        for (at, _), target in space.targets():
            self.references.setdefault(target.pointer, []).append(documents[at].pointer)
        wanted = frozenset(word for words in _BROKEN_BESIDE.values() for word in words)
        schemas = [p for p in documents.places if p is not None and isinstance(p.schema, dict)]
        self.words = {p.pointer: words for p in schemas if (words := wanted & p.schema.keys() - p.dialect.unknown)}
        self.schemas: dict[str, bool] = {}  # of the places around what is relaxed: may a schema be entered there?

    def rows(self, pointer: str, words: Iterable[str]) -> Iterator[ReportRow]:
        """Rows for those of ``words`` that stand in the schema there."""
        there = self.words.get(pointer, ())
        return (ReportRow(pointer, word, Outcome.RELAXED, _REASON) for word in words if word in there)

    def around(self, pointer: str) -> list[tuple[str, str | None]]:
        """What stands around a place and was not told before: each place on the way to it, with None, and each schema
        on it with its keyword that leads on.

        A word may be a keyword from where the document begins and a name from where a reference enters it.
        """
        way: list[tuple[str, str, str]] = []  # from inside out: a place, and the two steps from there
        one = two = ""
        is_told = False
        for at in _ends(pointer):
            place = pointer[:at]
            way.append((place, one, two))
            if is_told:
                break  # this one once more: what its keyword leads to depends on two steps
            is_told = place in self.schemas
            two, one = one, place.rpartition("/")[2]
        found: list[tuple[str, str | None]] = []
        for place, one, two in reversed(way):
            if place not in self.schemas:
                self.schemas[place] = self._is_schema(place)
                found.append((place, None))
            if self.schemas[place] and _width(one, two):
                found.append((place, one))
        return found

    def _is_schema(self, place: str) -> bool:
        """May a schema be entered there?  Known of the places around it."""
        outer, slash, last = place.rpartition("/")
        if not slash or outer not in self.schemas or place in self.references:
            return True
        outermost, slash, word = outer.rpartition("/")
        by_word = self.schemas[outer] and _width(last, "") == 1
        return by_word or (bool(slash) and self.schemas.get(outermost, False) and _width(word, last) == 2)


def _width(keyword: str, inner: str) -> int:
    """Steps from a schema by a keyword to the next; 0 where what stands under it is a schema only if referred to."""
    if keyword in _NAMED or (keyword in _LISTED and inner.isdigit()):
        return 2
    return 1 if keyword in _SINGLE or keyword == "items" else 0


def _ends(pointer: str) -> Iterator[int]:
    """Where the pointers of a place and of all around it end, in the text of its own; of the document's at last."""
    at, base = len(pointer), pointer.find("#") + 1 if pointer[:1] != "/" else 0
    while at > base:
        yield at
        at = max(pointer.rfind("/", base, at), base)
    yield base


def as_written(row: ReportRow, root: Any) -> ReportRow:
    """The row with the keyword that stands there, which may be an older word than the one we read it as."""
    if row.keyword not in OLDER:
        return row
    at = root
    for step in map(unescaped, row.pointer.split("/")[1:]):
        at = step_into(at, step)
    word = written_word(at, row.keyword) if isinstance(at, dict) else None
    return row if word is None else replace(row, keyword=word)
