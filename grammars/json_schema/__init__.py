"""JSON Schema to grammar nodes, with an honest report of what the masks enforce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from grammars.json_schema.report import Outcome, ReportRow, SchemaReport
from grammars.json_schema.spelling import DEFAULT_SPELLING, Spelling
from grammars.tree import Json, Node

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
) -> Built:
    """The grammar of ``schema``."""
    return Built(Json(schema, spelling.engine_options()), SchemaReport())
