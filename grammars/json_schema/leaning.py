"""Rows of the report for what stands around a row: the keywords that lean on a relaxed part, the words as written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from grammars.json_pointer import unescaped
from grammars.json_schema.documents import OLDER, written_word
from grammars.json_schema.report import Outcome, ReportRow
from grammars.json_schema.space import Space

__all__ = ["as_written", "leaning"]

#: Keywords of which a validator does not say what inside them is broken.
_OPAQUE = frozenset(("not", "if", "oneOf", "contains", "unevaluatedProperties", "unevaluatedItems"))
#: Keywords that choose what is evaluated: taken by mistake, a branch lets pass what nothing has looked at.
_CHOOSING = frozenset(("anyOf", "oneOf", "if", "contains"))
#: Those by which something is evaluated: what they refuse is unevaluated as well.
_EVALUATING = _CHOOSING | {
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
    *("prefixItems", "items", "additionalItems", "unevaluatedItems"),
}
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
#: Keywords that ask something of the same value, so that what is evaluated within them is evaluated around them.
_IN_PLACE = frozenset(("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"))
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"))
_LISTED = frozenset(("allOf", "anyOf", "oneOf", "items", "prefixItems"))
_REASON = "leans on a part that is relaxed"


def leaning(space: Space, rows: Iterable[ReportRow]) -> Iterator[ReportRow]:
    """Relaxed rows for the keywords that lean on what is relaxed, by way of references too.

    Those around it that are broken as a whole, the counts of ``contains``, and what is left unevaluated where it
    decides what is evaluated.
    """
    relaxed = [row for row in rows if row.outcome is Outcome.RELAXED]
    if not relaxed:
        return
    around = _Around(space)
    todo = list(dict.fromkeys(row.pointer for row in relaxed))
    seen = set(todo)
    for row in relaxed:
        if row.keyword in _EVALUATING:
            rows = around.unevaluated(row.pointer, row.keyword)
            yield from (one for one in rows if (one.pointer, one.keyword) != (row.pointer, row.keyword))
    for pointer in todo:
        steps = pointer.split("/")
        for n in _keywords(steps):
            holder, keyword = "/".join(steps[:n]), steps[n]
            if keyword in _OPAQUE:
                yield ReportRow(holder, keyword, Outcome.RELAXED, _REASON)
            if keyword == "contains":
                yield from around.leaning_words(holder, ("minContains", "maxContains"))
            if keyword in _CHOOSING:
                yield from around.unevaluated(holder, keyword)
        for target, place in around.references:
            if (pointer == target or pointer.startswith(target + "/")) and place not in seen:
                seen.add(place)
                todo.append(place)


class _Around:
    """The schemas that were looked at, by pointer, and the references between them."""

    def __init__(self, space: Space) -> None:
        documents = space.documents
        self.references = [(target.pointer, documents[at].pointer) for (at, _), target in space.targets()]
        wanted = {*_UNEVALUATED, "minContains", "maxContains"}
        holders = [p for p in documents.places if p is not None and isinstance(p.schema, dict)]
        self.words = {place.pointer: words for place in holders if (words := wanted & place.schema.keys())}

    def leaning_words(self, pointer: str, words: Iterable[str]) -> Iterator[ReportRow]:
        """Rows for those of ``words`` that stand in the schema there."""
        there = self.words.get(pointer, ())
        return (ReportRow(pointer, word, Outcome.RELAXED, _REASON) for word in words if word in there)

    def unevaluated(self, pointer: str, keyword: str) -> Iterator[ReportRow]:
        """Rows for what is asked of the unevaluated beside ``keyword`` and around it, for the same value."""
        words = ("unevaluatedItems",) if keyword == "contains" else _UNEVALUATED
        todo, seen = [pointer], {pointer}
        for holder in todo if self.words else ():
            yield from self.leaning_words(holder, words)
            steps = holder.split("/")
            last = max(_keywords(steps), default=0)
            outer = ["/".join(steps[:last])] if last and steps[last] in _IN_PLACE else []
            outer += [place for target, place in self.references if target == holder]
            todo += [place for place in outer if place not in seen]
            seen.update(outer)


def _keywords(steps: list[str]) -> Iterator[int]:
    """The steps of a pointer that are keywords, and neither names nor numbers of what stands under them."""
    at = 1
    while at < len(steps):
        yield at
        has_name = steps[at] in _NAMED or (steps[at] in _LISTED and "".join(steps[at + 1 : at + 2]).isdigit())
        at += 2 if has_name else 1


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
