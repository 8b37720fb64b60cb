"""Report rows for keywords that depend on a relaxed one, and rows with the keyword as the schema spells it.

If a subschema is only partly enforced, every enclosing keyword whose verdict depends on it (``not``, ``if``, ``oneOf``,
``contains``, ``unevaluated*``) is relaxed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from grammars.json_schema.document.places import OLDER_KEYWORDS, written_keyword
from grammars.json_schema.solver.solver import Solver
from grammars.limits.schema_limits import check_deadline
from grammars.values.json_pointer import value_at
from grammars.values.report import Outcome, ReportRow

__all__ = ["as_written", "dependent_rows"]

#: Keywords for which a validator does not say what inside them is invalid.
_OPAQUE = frozenset(("not", "if", "oneOf", "contains", "unevaluatedProperties", "unevaluatedItems"))

_KEYS, _ITEMS = ("unevaluatedProperties",), ("unevaluatedItems",)
#: Siblings that may be invalid when a part inside a keyword is: what it evaluates is not evaluated then.
_INVALID_WITH: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "if", "then", "else", "$ref"), _KEYS + _ITEMS),
    **dict.fromkeys(("dependentSchemas", "dependencies", "additionalProperties", "unevaluatedProperties"), _KEYS),
    **dict.fromkeys(("additionalItems", "unevaluatedItems"), _ITEMS),
    "contains": ("minContains", "maxContains", *_ITEMS),
}
#: The same when the keyword itself is not enforced.
_INVALID_WITH_ITSELF: dict[str, tuple[str, ...]] = {
    **_INVALID_WITH,
    **dict.fromkeys(("properties", "patternProperties"), _KEYS),
    **dict.fromkeys(("prefixItems", "items"), _ITEMS),
}
_REASON = "depends on a part that is relaxed"


def dependent_rows(solver: Solver, rows: Iterable[ReportRow]) -> Iterator[ReportRow]:
    """Relaxed rows for the keywords that depend on relaxed ones, through references as well.

    These are the enclosing keywords that fail as a whole, and the siblings of enclosing keywords that fail with them:
    the counts of ``contains``, and ``unevaluated*``.
    """
    relaxed = [row for row in rows if row.outcome is Outcome.RELAXED]
    if not relaxed:
        return
    compiled = _CompiledSchemas(solver)
    for row in relaxed:
        siblings = _INVALID_WITH_ITSELF.get(row.keyword, ())
        yield from compiled.rows(row.pointer, (word for word in siblings if word != row.keyword))
    todo = list(dict.fromkeys(row.pointer for row in relaxed))
    seen, done = set(todo), set[tuple[str, str]]()
    for pointer in todo:
        check_deadline()
        for holder, keyword in compiled.around(pointer):
            for place in compiled.references.get(holder, ()):
                yield from compiled.rows(place, _INVALID_WITH["$ref"])
                if place not in seen:
                    seen.add(place)
                    todo.append(place)
            if keyword in compiled.words.get(holder, ()) and (holder, keyword) not in done:
                done.add((holder, keyword))
                if keyword in _OPAQUE:
                    yield ReportRow(holder, keyword, Outcome.RELAXED, _REASON)
                yield from compiled.rows(holder, _INVALID_WITH.get(keyword, ()))


class _CompiledSchemas:
    """The schemas that were compiled, by their JSON pointers."""

    def __init__(self, solver: Solver) -> None:
        documents = solver.documents
        self.references: dict[str, list[str]] = {}  # the places that refer to a schema
        for (at, _), target in solver.targets():
            self.references.setdefault(target.pointer, []).append(documents[at].pointer)
        schemas = [p for p in documents.places if p is not None and isinstance(p.schema, dict)]
        self.words = {p.pointer: p.schema.keys() - p.dialect.unknown for p in schemas}
        self.seen: set[str] = set()

    def rows(self, pointer: str, words: Iterable[str]) -> Iterator[ReportRow]:
        """Rows for those of ``words`` that occur in the schema there."""
        there = self.words.get(pointer, ())
        return (ReportRow(pointer, word, Outcome.RELAXED, _REASON) for word in words if word in there)

    def around(self, pointer: str) -> Iterator[tuple[str, str]]:
        """A place and those around it, up to one that was asked for before, each with the step that leads on."""
        base, step = 0 if pointer[:1] == "/" else pointer.find("#") + 1, ""
        while True:
            yield pointer, step
            if pointer in self.seen or len(pointer) <= base:
                return
            self.seen.add(pointer)
            pointer, _, step = pointer.rpartition("/")


def as_written(row: ReportRow, root: Any) -> ReportRow:
    """The row with the keyword that the schema uses, which may be an older word than the one that we read it as."""
    if row.keyword not in OLDER_KEYWORDS:
        return row
    at = value_at(root, row.pointer)
    word = written_keyword(at, row.keyword) if isinstance(at, dict) else None
    return row if word is None else replace(row, keyword=word)
