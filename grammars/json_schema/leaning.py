"""Rows of the report for what stands around a row: the keywords that lean on a relaxed part, the words as written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from grammars.json_pointer import unescaped
from grammars.json_schema.documents import OLDER, written_word
from grammars.json_schema.limits import check_deadline
from grammars.json_schema.report import Outcome, ReportRow
from grammars.json_schema.space import Space

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
        for holder, keyword in known.ways(pointer):
            if (holder, keyword) in done:
                continue
            done.add((holder, keyword))
            if keyword in _OPAQUE:
                yield ReportRow(holder, keyword, Outcome.RELAXED, _REASON)
            yield from known.rows(holder, _BROKEN_BESIDE.get(keyword, ()))
        for at in _ends(pointer):
            for place in known.references.get(pointer[:at], ()):
                yield from known.rows(place, _BROKEN_BESIDE["$ref"])
                if place not in seen:
                    seen.add(place)
                    todo.append(place)


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

    def rows(self, pointer: str, words: Iterable[str]) -> Iterator[ReportRow]:
        """Rows for those of ``words`` that stand in the schema there."""
        there = self.words.get(pointer, ())
        return (ReportRow(pointer, word, Outcome.RELAXED, _REASON) for word in words if word in there)

    def ways(self, pointer: str) -> Iterator[tuple[str, str]]:
        """The schemas around the one there and their keywords that lead to it, from every place that it may be
        entered at: a word may be a keyword from one and a name from another."""
        *inner, root = _ends(pointer)
        starts = [root, *(at for at in inner if pointer[:at] in self.references)]
        for start in starts:
            steps = pointer[start + 1 :].split("/") if start < len(pointer) else []
            at, n = start, 0
            while n < len(steps):
                keyword = steps[n]
                is_number = "".join(steps[n + 1 : n + 2]).isdigit()
                if keyword in _NAMED or (keyword in _LISTED and is_number):
                    width = 2
                elif keyword in _SINGLE or keyword == "items":
                    width = 1
                else:
                    break  # what stands under it is a schema only where something refers to it
                yield pointer[:at], keyword
                at += sum(1 + len(step) for step in steps[n : n + width])
                n += width


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
        if isinstance(at, list) and step.isdigit() and int(step) < len(at):
            at = at[int(step)]
        else:
            at = at.get(step) if isinstance(at, dict) else None
    word = written_word(at, row.keyword) if isinstance(at, dict) else None
    return row if word is None else replace(row, keyword=word)
