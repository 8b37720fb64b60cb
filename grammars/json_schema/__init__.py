"""JSON Schema to grammar nodes, with an honest report of what the masks enforce."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import quote

from grammars.deadline import SECONDS, deadline, is_late, time_left
from grammars.json_schema.direct import direct
from grammars.json_schema.document.documents import Documents
from grammars.json_schema.grammar.emit import emit
from grammars.json_schema.report.document_rows import KEY_ORDER, general_rows
from grammars.json_schema.grammar.key_bounds import key_bounds
from grammars.json_schema.report.dependent_keywords import leaning
from grammars.limits.schema_limits import DEFAULT_LIMITS, Limits, check_deadline, survey, too_deep
from grammars.json_schema.shapes.numbers import MAX_DIGITS
from grammars.regular.languages import within
from grammars.values.report import Outcome, ReportRow, SchemaReport
from grammars.json_schema.solver.solver import Overrun, Space
from grammars.values.spelling import DEFAULT_SPELLING, Spelling
from grammars.json_schema.grammar.nonterminals import explore
from grammars.values.watchers import DigitWatch, UniqueWatch, Watcher
from grammars.json_schema.watching import has_free_keys, has_key_order, has_long_numbers, unique_nodes, unique_rows
from grammars.limits.outcome_cache import Remembered, digest
from grammars.tree.nodes import Node
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

#: Errors that took long to find, so that the same request again does not: for a while only, since the time that a
#: schema takes is not the same every time, and still shorter where only the deadline ended it.
_errors: Remembered[SchemaError] = Remembered(256)
_COSTLY_S = 0.1
_KEPT_S, _KEPT_LATE_S = 600.0, 30.0

_MOST_SEARCHED = 9_000_000  # parts of languages looked at for one schema: real ones take 8 million at the most

#: ``strict`` refuses what the masks cannot enforce; ``warn`` widens and lists it.
Policy = Literal["strict", "warn"]


@dataclass(frozen=True, slots=True)
class Built:
    """A schema as a grammar.

    ``node`` writes an instance, ``report`` says what it keeps of the schema, ``watchers`` what must be watched while
    it is written for the report to hold.
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
    in_full: bool = False,
    start: str = "",
) -> Built:
    """The grammar of ``schema``, or of its subschema at the JSON pointer ``start``.

    ``documents`` are other documents by URI that references may lead to; nothing is fetched.  With ``watch`` the
    caller promises to run the watchers; without, nothing is left to them, and what only they could enforce is
    relaxed.  ``in_full`` works out what the engine would compile as it is as well.  Raises `SchemaError` for a schema
    that is broken, contradictory, past a limit, not worked out before the deadline (`grammars.deadline`), or (policy
    ``strict``) not enforceable in full.
    """
    _check(policy, documents)
    with deadline():
        seen = survey(schema, limits)
        if watch and not in_full and not start:
            found = direct(schema, spelling, seen.keys)
            if found is not None:
                watchers: tuple[Watcher, ...] = (DigitWatch(MAX_DIGITS),) if found.has_numbers else ()
                watchers += (UniqueWatch((), *found.key_bounds),) if found.has_free_keys else ()
                return _judged(Built(found.node, SchemaReport(found.rows), watchers), policy)
        return _judged(_worked_out(schema, spelling, documents, limits, watch=watch, start=start), policy)


def _check(policy: object, documents: object) -> None:
    if policy not in get_args(Policy):
        raise RequestError(f"{shown(policy)} is no policy", place="schema_policy", expected="warn or strict")
    if documents is not None and not (
        isinstance(documents, Mapping) and all(isinstance(uri, str) for uri in documents)
    ):
        raise RequestError(
            f"{shown(documents)} is no mapping of documents", place="documents", expected="schemas by their URIs"
        )


def _judged(built: Built, policy: Policy) -> Built:
    if policy == "strict" and built.report.relaxed:
        raise refusal(built.report)
    return built


def _worked_out(
    schema: Any, spelling: Spelling, documents: Mapping[str, Any] | None, limits: Limits, *, watch: bool, start: str
) -> Built:
    """What is built of a schema, or the error of it; one that was costly to find is remembered."""
    request = (schema, spelling, documents, limits, watch, start)
    key = _key(*request) if _errors else None
    known = None if key is None else _errors.get(key)
    if known is not None:
        raise copy.copy(known)
    begun, left = time.thread_time(), time_left()
    try:
        built = _compiled(Documents(schema, documents, limits=limits), spelling, watch=watch, start=start)
        check_deadline()  # searches that gave up because of it have left their mark on what was built
    except SchemaError as error:
        if time.thread_time() - begun > _COSTLY_S and (key := key or _key(*request)) is not None:
            if not is_late():
                _errors.put(key, copy.copy(error), _KEPT_S)
            elif left > SECONDS / 2:  # else it was its caller who had little time
                _errors.put(key, copy.copy(error), _KEPT_LATE_S)
        raise
    return built


def _key(
    schema: Any, spelling: Spelling, documents: Mapping[str, Any] | None, limits: Limits, watch: bool, start: str
) -> bytes | None:
    """The content of a request; None where it cannot be told."""
    try:
        return digest(json.dumps([schema, dict(documents or {})]), spelling, limits, watch, start)
    except (TypeError, ValueError, RecursionError):
        return None


def _compiled(documents: Documents, spelling: Spelling, *, watch: bool, start: str) -> Built:
    try:
        with within(_MOST_SEARCHED):
            try:
                return _in_full(documents, spelling, watch=watch, start=start)
            except Overrun:
                return _compile(Space(documents, coarse=True), spelling, watch=watch, start=start)
    except RecursionError:
        raise too_deep(documents.root.schema) from None


def _in_full(documents: Documents, spelling: Spelling, *, watch: bool, start: str) -> Built:
    """The schema worked out; where formats that its draft does not have make it impossible, without them."""
    try:
        return _compile(Space(documents), spelling, watch=watch, start=start)
    except SchemaError as error:
        if isinstance(error, Overrun) or not documents.met_early or "unsatisfiable" not in str(error):
            raise
    documents.early_formats = False
    return _compile(Space(documents), spelling, watch=watch, start=start)


def _compile(space: Space, spelling: Spelling, *, watch: bool, start: str) -> Built:
    root = space.documents.root
    place = space.documents.target(root, "#" + quote(start)) if start else root
    conj = space.child(place, place.schema)
    if conj is None:
        raise SchemaError("unsatisfiable schema: it is false", pointer=start)
    states = explore(space, spelling, conj)
    emitted = emit(states)
    unique = unique_rows(states, emitted.watched, watch=watch)
    rows = [*emitted.rows, *unique, *leaning(space, unique)]
    if has_key_order(states):
        rows.append(KEY_ORDER)
    whole = any(numbers.integer for state in states.by_conj.values() for numbers in state.shape.numbers)
    rows += general_rows(root.schema, root.dialect, has_numbers=has_long_numbers(states), has_integers=whole)
    watchers: tuple[Watcher, ...] = ()
    if watch and (emitted.watched or has_free_keys(states)):
        watchers = (UniqueWatch(unique_nodes(states) if emitted.watched else (), *key_bounds(states)),)
    return Built(emitted.node, SchemaReport(tuple(dict.fromkeys(rows))), watchers)


def refusal(report: SchemaReport) -> SchemaError:
    """What the strict policy says to a schema with relaxed rows: the first by name, the others by number."""
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
