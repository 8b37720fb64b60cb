"""The evidence for each field of a format.

`Format.evidence` pairs names with evidence.  That of a part (``reasoning``) applies to all of its fields except those
with an entry of their own (``reasoning.switch``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from grammars.values.format import ContentFormat, Ends, Format, InputNeeds, ReasoningFormat, ToolCallFormat

__all__ = ["PARTS", "by_field", "evidence_of_changes", "rendered_fields", "without_part"]

#: The parts of a format whose fields can have evidence of their own.
PARTS: Mapping[str, type] = {
    "reasoning": ReasoningFormat,
    "content": ContentFormat,
    "tool_calls": ToolCallFormat,
    "ends": Ends,
    "inputs": InputNeeds,
}
_DEFAULT = "default"
_CALL, _ANSWER = "rendering of a call", "rendering of an answer"

#: Field -> the rendered sample that shows it.
_SHOWN_BY: Mapping[str, str] = {
    "content.opening": _ANSWER,
    "content.start": _ANSWER,
    "content.end": _ANSWER,
    "content.lead_start": "rendering of text with a call",
    "content.lead_end": "rendering of text with a call",
    "tool_calls.syntax": _CALL,
    "tool_calls.section_start": "rendering of two calls",
    "tool_calls.section_end": "rendering of two calls",
    "tool_calls.call_start": _CALL,
    "tool_calls.call_end": _CALL,
    "tool_calls.between": "rendering of two calls",
    "tool_calls.gap": "rendering of text with a call",
    "tool_calls.gap_without_text": _CALL,
    "tool_calls.max_calls": "rendering of two calls",
    "tool_calls.text_before": "rendering of text with a call",
    "tool_calls.text_after": "rendering of text with a call",
    "tool_calls.id_style": "rendering of a call with a long id",
    "tool_calls.spelling": _CALL,
    "tool_calls.options": "rendering of values of all types",
    "ends.content": _ANSWER,
    "ends.calls": _CALL,
    "ends.not_ends": "rendering of markers inside the turn",
    "inputs.arguments": _CALL,
    "inputs.content_of_calls": _CALL,
    "inputs.content_as": "rendering of a list of parts",
    "inputs.developer_role": "rendering of the role developer",
    "inputs.system_role": "rendering of the role system",
    "inputs.tools": "rendering of a prompt with tools",
    "inputs.tool_calls": _CALL,
    "inputs.tool_results": "rendering of a call's result",
    "inputs.kwargs": "rendering of a plain message",
    "inputs.tools_as": "rendering of a prompt with tools",
    "inputs.tools_are_text": "rendering of a prompt with tools",
    "inputs.reasoning_as": "rendering of an answer with reasoning",
    "inputs.text_beside_calls": "rendering of text with a call",
}


#: Fields that only templates which write calls show.
_OF_CALLS = {"inputs.arguments", "inputs.content_of_calls", "inputs.tool_results", "inputs.text_beside_calls"}
_OF_CALLS |= {"ends.calls", "content.lead_start", "content.lead_end"}


def rendered_fields(
    format: Format, of_reasoning: Iterable[tuple[str, str]], *, shows_calls: bool
) -> Iterator[tuple[str, str]]:
    """The evidence of every field that renderings show, even if its value is the default.

    ``of_reasoning`` is the evidence of the fields of ``reasoning``; ``shows_calls``: the template writes calls.
    """
    parts = dict(format.evidence)
    for field, how in of_reasoning:
        yield f"reasoning.{field}", how
    for name, how in _SHOWN_BY.items():
        part = name.split(".")[0]
        is_read = getattr(format, part) is not None and parts.get(part, "rendering") == "rendering"
        if is_read and (shows_calls or name not in _OF_CALLS):
            yield name, how


def _says_something(value: Any, field: str) -> bool:
    """Whether the field differs from its default."""
    return value is not None and getattr(value, field) != next(f.default for f in fields(value) if f.name == field)


def by_field(format: Format) -> dict[str, str]:
    """``part.field`` -> evidence, for every field of every part; ``default`` if there is none."""
    evidence = dict(format.evidence)
    sources: dict[str, str] = {}
    for part, kind in PARTS.items():
        value = getattr(format, part)
        for field in fields(kind):
            name = f"{part}.{field.name}"
            if name in evidence:
                sources[name] = evidence[name]
            else:
                sources[name] = evidence.get(part, _DEFAULT) if _says_something(value, field.name) else _DEFAULT
    sources["spelling"] = evidence.get("spelling", _DEFAULT)
    return sources


def without_part(evidence: Iterable[tuple[str, str]], part: str) -> tuple[tuple[str, str], ...]:
    """The evidence without that of one part and its fields."""
    return tuple((name, how) for name, how in evidence if name.split(".")[0] != part)


def evidence_of_changes(before: Any, after: Any, part: str, how: str) -> dict[str, str]:
    """Evidence ``how`` for the fields that differ between ``before`` and ``after``; for all if ``before`` is None."""
    if before is None:
        return {part: how}
    names = (field.name for field in fields(after))
    return {f"{part}.{name}": how for name in names if getattr(before, name) != getattr(after, name)}
