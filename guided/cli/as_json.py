"""Results as JSON values, for ``--json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from grammars.plan.plan import Plan
from grammars.tool_calls.syntaxes.anchors import anchored
from grammars.tools.results import plain_value
from grammars.values.format import Format
from guided.output.message import Message
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, TokenizerError
from special_tokens.report import report_of

__all__ = ["anchor_rows", "as_json", "message_json", "plan_json", "tokens_json"]


def as_json(value: Any) -> str:
    """A result as one JSON text."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def message_json(message: Message) -> dict[str, Any]:
    """A message; its trace is written to another file."""
    bare = replace(message, parsed=None, partial=None, tool_calls=(), error=None, parse_error=None, trace=None)
    data = asdict(bare)
    del data["trace"], data["partial"], data["has_format"]
    data["parsed"] = plain_value(message.parsed)
    data["tool_calls"] = [
        {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "parsed": plain_value(call.parsed),
            "landed": call.landed,
        }
        for call in message.tool_calls
    ]
    for name, error in (("error", message.error), ("parse_error", message.parse_error)):
        data[name] = str(error) if error else None
    return data


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return what a plan is composed of."""
    return {
        "lark": plan.lark,
        "entries": [entry.name for entry in plan.entries],
        "regions": [region.name for region in plan.regions],
        "ends": [asdict(end) for end in plan.ends],
        "budgets": [asdict(budget) for budget in plan.budgets],
        "tokens": dict(plan.grammar.labels),
        "schema_report": [asdict(row) for row in plan.schema_report.rows],
        "tool_report": [asdict(row) for row in plan.tool_report.rows],
        "anchors": [{"replaces": tag, "id": token_id} for tag, token_id in plan.anchors],
        "notes": list(plan.notes),
    }


def anchor_rows(tokens: SpecialTokens, format: Format) -> list[tuple[int | None, str, str]]:
    """Id and text of the tokens that ``Guide(..., anchors=True)`` takes, and the tags they replace; [] for none."""
    try:
        form = format.tool_calls if format.tool_calls and format.tool_calls.anchors else None
        form = form or anchored(format, tokens).tool_calls
    except (ModelError, TokenizerError):
        return []
    return [(tokens.id_of(anchor.token), anchor.token, anchor.closes) for anchor in form.anchors] if form else []


def tokens_json(tokens: SpecialTokens, format: Format, notes: Sequence[str]) -> dict[str, Any]:
    """A registry and the wire format that goes with it, and how each part of that is known."""
    report: dict[str, Any] = {"format": format.to_json(), "evidence": dict(format.evidence), "notes": list(notes)}
    report["anchors"] = [{"id": i, "text": text, "replaces": tag} for i, text, tag in anchor_rows(tokens, format)]
    return report_of(tokens).to_json() | report
