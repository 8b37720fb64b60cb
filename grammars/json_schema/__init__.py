"""JSON Schema to grammar nodes, with an honest report of what the masks enforce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from grammars.json_schema.documents import Documents
from grammars.json_schema.emit import emit
from grammars.json_schema.limits import DEFAULT_LIMITS, Limits
from grammars.json_schema.report import Outcome, ReportRow, SchemaReport
from grammars.json_schema.space import Overrun, Space
from grammars.json_schema.spelling import DEFAULT_SPELLING, Spelling
from grammars.json_schema.states import explore
from grammars.tree import Node
from special_tokens.errors import SchemaError

__all__ = ["DEFAULT_SPELLING", "Built", "Outcome", "Policy", "ReportRow", "SchemaReport", "Spelling", "build"]

#: ``strict`` refuses what the masks cannot enforce; ``warn`` widens and lists it.
Policy = Literal["strict", "warn"]


@dataclass(frozen=True, slots=True)
class Built:
    """A schema as a grammar: ``node`` writes an instance, ``report`` says what it keeps of the schema."""

    node: Node
    report: SchemaReport


def build(
    schema: Any,
    *,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
    documents: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Built:
    """The grammar of ``schema``."""
    found = Documents(schema, documents, limits=limits)
    try:
        node, rows = _compile(Space(found), spelling)
    except Overrun:
        node, rows = _compile(Space(found, coarse=True), spelling)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply", hint="use $defs and $ref, or fewer levels") from None
    report = SchemaReport(rows)
    if policy == "strict" and report.relaxed:
        raise refusal(report)
    return Built(node, report)


def _compile(space: Space, spelling: Spelling) -> tuple[Node, tuple[ReportRow, ...]]:
    root = space.documents.root
    start = space.child(root, root.schema)
    if start is None:
        raise SchemaError("unsatisfiable schema: it is false")
    return emit(explore(space, spelling, start))


def refusal(report: SchemaReport) -> SchemaError:
    """What the strict policy says to a schema with relaxed rows: the first by name, the others by number."""
    first, *others = report.relaxed
    more = f", and {len(others)} more" if others else ""
    return SchemaError(
        f"{first.keyword!r} cannot be enforced: {first.reason}{more}",
        pointer=first.pointer,
        keyword=first.keyword,
        expected="a schema that the masks can enforce in full",
        hint="use policy 'warn' to have it checked after generation, or change the schema",
    )
