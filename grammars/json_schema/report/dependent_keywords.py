"""Report rows for keywords that depend on a relaxed one, and rows with the keyword as the schema spells it.

If a subschema is only partly enforced, every enclosing keyword whose verdict depends on it (``not``, ``if``, ``oneOf``,
``contains``, ``unevaluated*``) is relaxed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from grammars.json_schema.document.places import OLDER_KEYWORDS, written_keyword
from grammars.json_schema.solver.protocol import Solver
from grammars.limits.schema_limits import check_deadline
from grammars.values.json_pointer import step_into, unescaped
from grammars.values.report import Outcome, ReportRow

__all__ = ["as_written", "dependent_rows"]

#: Keywords for which a validator does not say what inside them is invalid.
_OPAQUE = frozenset(("not", "if", "oneOf", "contains", "unevaluatedProperties", "unevaluatedItems"))
#: Keywords that hold one schema, a list of them, or several by name.
_SINGLE = _OPAQUE | {"then", "else", "propertyNames", "additionalProperties", "additionalItems"}
_LISTED = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies"))

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
            if keyword is None:
                for place in compiled.references.get(holder, ()):
                    yield from compiled.rows(place, _INVALID_WITH["$ref"])
                    if place not in seen:
                        seen.add(place)
                        todo.append(place)
            elif (holder, keyword) not in done:
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
        wanted = frozenset(word for words in _INVALID_WITH.values() for word in words)
        schemas = [p for p in documents.places if p is not None and isinstance(p.schema, dict)]
        self.words = {p.pointer: words for p in schemas if (words := wanted & p.schema.keys() - p.dialect.unknown)}
        self.schemas: dict[str, bool] = {}  # for places around relaxed ones: whether a schema may begin there

    def rows(self, pointer: str, words: Iterable[str]) -> Iterator[ReportRow]:
        """Rows for those of ``words`` that occur in the schema there."""
        there = self.words.get(pointer, ())
        return (ReportRow(pointer, word, Outcome.RELAXED, _REASON) for word in words if word in there)

    def around(self, pointer: str) -> list[tuple[str, str | None]]:
        """The surroundings of a place that were not returned before, outermost first: each place on the way to it, with
        None, and each schema on the way with the keyword that leads on.

        A word may be a keyword on the way from the root of the document and a name on the way from the target of a
        reference.
        """
        way: list[tuple[str, str, str]] = []  # from inside out: a place, and the two steps from there
        step = next_step = ""
        is_known = False
        for at in _ends(pointer):
            place = pointer[:at]
            way.append((place, step, next_step))
            if is_known:
                break  # this one again: where its keyword leads depends on two steps
            is_known = place in self.schemas
            next_step, step = step, place.rpartition("/")[2]
        neighbours: list[tuple[str, str | None]] = []
        for place, step, next_step in reversed(way):
            if place not in self.schemas:
                self.schemas[place] = self._is_schema(place)
                neighbours.append((place, None))
            if self.schemas[place] and _width(step, next_step):
                neighbours.append((place, step))
        return neighbours

    def _is_schema(self, place: str) -> bool:
        """Whether a schema may begin there, given the places around it."""
        outer, slash, last = place.rpartition("/")
        if not slash or outer not in self.schemas or place in self.references:
            return True
        outermost, slash, word = outer.rpartition("/")
        by_word = self.schemas[outer] and _width(last, "") == 1
        return by_word or (bool(slash) and self.schemas.get(outermost, False) and _width(word, last) == 2)


def _width(keyword: str, inner: str) -> int:
    """Steps from a schema by a keyword to the next schema; 0 if the value is a schema only by a reference."""
    if keyword in _NAMED or (keyword in _LISTED and inner.isdigit()):
        return 2
    return 1 if keyword in _SINGLE or keyword == "items" else 0


def _ends(pointer: str) -> Iterator[int]:
    """The lengths of the pointers of a place and of all around it, each a prefix of it; the document's last."""
    at, base = len(pointer), pointer.find("#") + 1 if pointer[:1] != "/" else 0
    while at > base:
        yield at
        at = max(pointer.rfind("/", base, at), base)
    yield base


def as_written(row: ReportRow, root: Any) -> ReportRow:
    """The row with the keyword that the schema uses, which may be an older word than the one that we read it as."""
    if row.keyword not in OLDER_KEYWORDS:
        return row
    at = root
    for step in map(unescaped, row.pointer.split("/")[1:]):
        at = step_into(at, step)
    word = written_keyword(at, row.keyword) if isinstance(at, dict) else None
    return row if word is None else replace(row, keyword=word)
