"""Translate a JSON Schema into grammar nodes, with a report of what the masks enforce."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from grammars.json_schema.document.documents import Documents
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
from grammars.json_schema.report.document_rows import ESCAPES, ESCAPES_IN_KEYS, KEY_ORDER, document_rows
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
        rows.append(KEY_ORDER)
    if emitted.loses_escapes:
        rows.append(ESCAPES)
    elif emitted.keys_lose_escapes:
        rows.append(ESCAPES_IN_KEYS)
    whole = any(
        numbers.integer for nonterminal in nonterminals.by_conj.values() for numbers in nonterminal.shape.numbers
    )
    digits = wanted.digits if has_long_numbers(nonterminals) else 0
    rows += document_rows(root.schema, root.dialect, digits=digits, has_integers=whole)
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
