"""Shortest texts of a plan's response format and of its tools' parameters, found without an engine.

They are found in the schema, pattern or choices alone.  `guided.inspect.shortest` adds what only masks show.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from grammars.json_schema.build import build
from grammars.json_schema.document.closed_objects import close_objects
from grammars.plan.plan import Plan, ResponsePlan
from grammars.regular.languages import Regular, shortest
from grammars.regular.syntax import ecma
from grammars.regular.syntax.rust import InvalidRegex, NotTranslated, language
from grammars.shortest.node_texts import shortest_text
from grammars.shortest.subschema_texts import ShortestTexts
from grammars.tools.parameters import arguments_schema, ordered
from special_tokens.errors import SchemaError, ToolError, shown

__all__ = ["response_text", "subschema_texts"]


def response_text(response: ResponsePlan) -> str | None:
    """Return a shortest text that the format's masks allow, or None where the format alone does not show one.

    Grammars and structural tags never show one.  Where a row of the report is relaxed the text need not be valid.
    A schema is built again where the plan has come from another process, which takes up to the deadline of the thread
    (`grammars.limits.deadline`).
    """
    match response.kind:
        case "json":
            return _schema_text(response)
        case "choice":
            return min(response.choices, key=lambda text: (len(text.encode()), text), default=None)
        case "regex":
            return _word(response.pattern or "")
    return None


def _word(pattern: str) -> str | None:
    """A shortest text of a regex, which is of the engine's syntax or, with look-around, of JSON schemas' patterns."""
    term: Regular | None = None
    with suppress(InvalidRegex, NotTranslated):
        term = language(pattern)
    with suppress(ecma.InvalidPattern, ecma.NotRegular):
        term = term if term is not None else ecma.language(f"^(?:{pattern})$", final_newline=False)
    found = shortest(term) if term is not None else None
    return found if isinstance(found, str) else None


def _schema_text(response: ResponsePlan) -> str | None:
    """A shortest text of a schema."""
    schema, built = response.built or (None, None)
    if built is None or schema is not response.schema:
        try:
            built = build(response.schema, spelling=response.spelling, documents=response.documents, watch=True)
        except SchemaError:
            return None
    quick = shortest_text(built.node, built.watchers, hasty=True)
    return quick if quick is not None else shortest_text(built.node, built.watchers, patient=True)


def subschema_texts(plan: Plan, tool: str | None = None) -> Mapping[str, str | None]:
    """Return shortest texts by JSON pointer: of the subschemas of the response's schema, or of ``tool``'s parameters.

    Each is found when it is first asked for, see `ShortestTexts`.  Empty where there is no schema.  Raises `ToolError`
    for a tool that the plan does not have.
    """
    if tool is not None:
        return _parameter_texts(plan, tool)
    response = plan.response
    if response is None or response.kind != "json":
        return {}
    return ShortestTexts(response.schema, spelling=response.spelling, documents=response.documents)


def _parameter_texts(plan: Plan, name: str) -> Mapping[str, str | None]:
    tool = next((tool for tool in plan.tools if tool.name == name), None)
    if tool is None:
        known = ", ".join(plan.tool_names) or "none"
        raise ToolError(f"there is no tool {shown(name)}", place="tool", expected=f"one of the plan's: {known}")
    if tool.kind == "custom":
        return {}
    schema, form = close_objects(arguments_schema(tool)), plan.format.tool_calls
    return ShortestTexts(ordered(form, schema) if form else schema, spelling=plan.format.spelling_of_calls)
