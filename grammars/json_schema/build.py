"""Translate a JSON Schema into grammar nodes, with a report of what the masks enforce."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from grammars.json_schema.document.dialects import Dialect, is_metaschema_uri
from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.string_formats import FORMATS
from grammars.json_schema.grammar.emit import emit
from grammars.json_schema.grammar.nonterminals import explore
from grammars.json_schema.grammar.runtime_constraints import (
    has_free_keys,
    has_key_order,
    has_long_numbers,
    key_bounds,
    unique_nodes,
    unique_rows,
)
from grammars.json_schema.report.dependent_keywords import dependent_rows
from grammars.json_schema.report.misspelt import misspelt_rows, unlisted_rows
from grammars.json_schema.shapes.numbers import MAX_DIGITS
from grammars.json_schema.solver.semantics import solver_of
from grammars.json_schema.solver.solver import Overrun, Solver, Unsatisfiable
from grammars.limits.deadline import deadline
from grammars.limits.schema_limits import DEFAULT_LIMITS, Limits, check_deadline, survey, too_deep
from grammars.limits.work import WORK
from grammars.regular.languages import work_budget
from grammars.tree.nodes import Node
from grammars.values.report import Outcome, ReportRow, SchemaReport
from grammars.values.spelling import DEFAULT_SPELLING, Spelling
from grammars.values.watchers import UniqueWatch, Watcher
from special_tokens.errors import RequestError, SchemaError, shown

__all__ = [
    "DEFAULT_SPELLING",
    "Built",
    "Outcome",
    "Policy",
    "ReportRow",
    "SchemaReport",
    "Spelling",
    "Watcher",
    "build",
]

#: Digits of the largest 64-bit integer, and of the longest fraction that a double is written with.
_PYTHON_DIGITS = 20
_LONG = re.compile(r"[0-9]{16}|[0-9]e[+-]?[0-9]")

#: ``strict`` refuses what the masks cannot enforce; ``warn`` widens and lists it.
Policy = Literal["strict", "warn"]


@dataclass(frozen=True, slots=True)
class Built:
    """A schema as a grammar.

    ``node`` generates an instance, ``report`` says how much of the schema is enforced, and ``watchers`` must run
    during generation for the report to hold.
    """

    node: Node
    report: SchemaReport
    watchers: tuple[Watcher, ...] = ()


def build(
    schema: Any,
    *,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
    documents: Mapping[str, Any] | None = None,
    watch: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    start: str = "",
    rows: tuple[ReportRow, ...] = (),
    of_python: bool = False,
) -> Built:
    """Return the grammar of ``schema``, or of its subschema at the JSON pointer ``start``.

    ``documents`` are other documents by URI that references may lead to; nothing is fetched.  With ``watch`` the
    caller promises to run the watchers; without it, what only they could enforce is relaxed.  ``rows`` are put in
    front of the report: what the schema's source asks for and the schema does not say.  ``of_python``: numbers without
    bounds are those that a 64-bit integer or a double holds.  Raises `SchemaError` for a schema that is broken,
    contradictory, past a limit, not finished before the deadline (`grammars.limits.deadline`), or (policy ``strict``)
    not enforceable in full.
    """
    _check(policy, documents)
    with deadline():
        rows += misspelt_rows(schema, survey(schema, limits).keys) + unlisted_rows(schema)
        short = of_python and not _LONG.search(json.dumps(schema))
        wanted = _Wanted(spelling, watch, start, _PYTHON_DIGITS if short else MAX_DIGITS)
        built = _compiled(Documents(schema, documents, limits=limits), wanted)
        check_deadline()  # searches that gave up because of it made the result coarser
        return _judged(replace(built, report=SchemaReport((*rows, *built.report.rows))) if rows else built, policy)


class _Wanted(NamedTuple):
    """The wishes about a grammar: of the subschema at ``start``, with numbers of at most ``digits`` digits in a row."""

    spelling: Spelling
    watch: bool
    start: str
    digits: int


def _check(policy: object, documents: object) -> None:
    if policy not in get_args(Policy):
        raise RequestError(f"{shown(policy)} is not a policy", place="schema_policy", expected="warn or strict")
    if documents is not None and not (
        isinstance(documents, Mapping) and all(isinstance(uri, str) for uri in documents)
    ):
        raise RequestError(
            f"{shown(documents)} is not a mapping of documents", place="documents", expected="schemas by their URIs"
        )


def _judged(built: Built, policy: Policy) -> Built:
    if policy == "strict" and built.report.relaxed:
        raise strict_error(built.report)
    return built


def _compiled(documents: Documents, wanted: _Wanted) -> Built:
    try:
        with work_budget(WORK.searches):
            try:
                return _compile(solver_of(documents), wanted)
            except Overrun:
                return _compile(solver_of(documents, coarse=True), wanted)
    except RecursionError:
        raise too_deep(documents.root.schema) from None


def _compile(solver: Solver, wanted: _Wanted) -> Built:
    root, start, watch = solver.documents.root, wanted.start, wanted.watch
    place = solver.documents.target(root, "#" + quote(start)) if start else root
    conj = solver.child(place, place.schema)
    if conj is None:
        raise Unsatisfiable("unsatisfiable: no value satisfies false", pointer=start)
    nonterminals = explore(solver, wanted.spelling, conj)
    emitted = emit(nonterminals, wanted.digits)
    unique = unique_rows(nonterminals, emitted.watched, watch=watch)
    rows = [*emitted.rows, *unique, *dependent_rows(solver, unique)]
    if has_key_order(nonterminals) and not wanted.spelling.any_order:
        rows.append(_KEY_ORDER)
    if emitted.loses_escapes:
        rows.append(_ESCAPES)
    elif emitted.keys_lose_escapes:
        rows.append(_ESCAPES_IN_KEYS)
    whole = any(
        numbers.integer for nonterminal in nonterminals.by_conj.values() for numbers in nonterminal.shape.numbers
    )
    digits = wanted.digits if has_long_numbers(nonterminals) else 0
    rows += _document_rows(root.schema, root.dialect, digits=digits, has_integers=whole)
    watchers: tuple[Watcher, ...] = ()
    if watch and (emitted.watched or has_free_keys(nonterminals)):
        watchers = (UniqueWatch(unique_nodes(nonterminals) if emitted.watched else (), *key_bounds(nonterminals)),)
    return Built(emitted.node, SchemaReport(tuple(dict.fromkeys(rows))), watchers)


def strict_error(report: SchemaReport) -> SchemaError:
    """Return the error of policy ``strict`` for a schema with relaxed rows: names the first and counts the others."""
    report = report.strictly()
    first, *others = report.refused
    more = f", and {len(others)} more" if others else ""
    return SchemaError(
        f"{first.keyword!r} cannot be enforced: {first.reason}{more}",
        pointer=first.pointer,
        keyword=first.keyword,
        expected="a schema that the masks can enforce in full",
        hint="use policy 'warn' to have it checked after generation, or change the schema",
        report=report,
    )


_KEY_ORDER = ReportRow("", "properties", Outcome.NARROWED, "keys come in the order of the schema")
_ESCAPES = ReportRow(
    "",
    "type",
    Outcome.NARROWED,
    "\\u escapes of letters, \\/ and, in patterns, control characters without a short escape are not written",
)
_ESCAPES_IN_KEYS = ReportRow("", "type", Outcome.NARROWED, f"{_ESCAPES.reason} in keys")

_WHOLE = ReportRow("", "type", Outcome.NARROWED, "integers are written without point and exponent")
_DOT = ReportRow(
    "",
    "pattern",
    Outcome.EXACT,
    "a . in a pattern matches CR, U+2028 and U+2029, as for validators, unlike ECMA-262",
)
_CLASSES = ReportRow(
    "", "pattern", Outcome.EXACT, "\\w, \\d and \\s are those of ECMA-262: Python's re may reject what they allow"
)
_ASSERTED_SINCE = 8  # from draft 2019-09 on a format is an annotation unless a vocabulary says otherwise


def _document_rows(schema: Any, dialect: Dialect, *, digits: int, has_integers: bool) -> Iterator[ReportRow]:
    """The rows for the whole of ``schema``.

    ``digits``: the most that numbers without bounds are written with, 0 where there are none; ``has_integers``: some
    numbers must be whole.
    """
    if digits:
        reason = f"numbers are written with at most {digits} digits in a row, and below 1.8e308"
        yield ReportRow("", "type", Outcome.NARROWED, reason)
    if has_integers:
        yield _WHOLE
    schema_uri = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(schema_uri, str) and not is_metaschema_uri(schema_uri):
        reason = f"an unknown meta-schema: read as {dialect.name}, and all keywords of that are enforced"
        yield ReportRow("", "$schema", Outcome.NARROWED, reason)
    keys = {key for value in _objects(schema) for key in value} if "draft-03" in str(schema_uri) else set()
    if lost := keys & _DRAFT_3:
        reason = f"draft-03 is read as {dialect.name}, which has no {', '.join(sorted(lost))}"
        yield ReportRow("", "$schema", Outcome.RELAXED, reason)
    patterns = list(_patterns(schema))
    if any(map(_HAS_DOT.match, patterns)):
        yield _DOT
    if any(map(_HAS_FOREIGN_CLASS.search, patterns)):
        yield _CLASSES
    if dialect.order >= _ASSERTED_SINCE and _has_format(schema):
        yield ReportRow("", "format", Outcome.NARROWED, f"enforced, though {dialect.name} calls it an annotation")


#: A dot for any character, and classes with characters beyond ASCII.
_HAS_DOT = re.compile(r"(?s)(?:\\.|\[(?:\\.|[^\]\\])*\]|[^.\\\[])*\.")
_HAS_FOREIGN_CLASS = re.compile(r"\\[WDsS]|\[\^[^\[\]]*\\[wd]")
_DRAFT_3 = {"divisibleBy", "disallow", "extends"}


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects in a schema."""
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield value
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)


def _patterns(schema: Any) -> Iterator[str]:
    """The patterns in a schema, those of keys included."""
    for value in _objects(schema):
        keys = value.get("patternProperties")
        yield from (p for p in (value.get("pattern"), *(keys if isinstance(keys, dict) else ())) if isinstance(p, str))


def _has_format(schema: Any) -> bool:
    return any(isinstance(name := value.get("format"), str) and name in FORMATS for value in _objects(schema))
