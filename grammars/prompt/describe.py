"""The description of a plan for the model: tools that the template does not show, and the response format.

Without it the masks force a form that the model does not expect, and the answer is valid nonsense.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from grammars.plan.plan import Plan, ResponsePlan
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import Format
from grammars.values.tool import Call, Tool

__all__ = ["describe_plan"]


def describe_plan(plan: Plan) -> str:
    """Return the system text for this plan; empty where the template itself shows everything."""
    parts: list[str] = []
    if plan.tools and plan.format.inputs.tools == "described":
        parts.append(_tools(plan.tools, plan.format, required=plan.tool_choice in ("required", "named")))
    if plan.response is not None:
        parts.append(_response(plan.response))
    if plan.reasoning.applied and plan.format.reasoning is not None and plan.format.inputs.reasoning == "described":
        start, end = plan.format.reasoning.start.strip(), plan.format.reasoning.end.strip()
        parts.append(f"First think in one or two short sentences between {start} and {end}. Then answer.")
    return "\n\n".join(part for part in parts if part)


def _tools(tools: Sequence[Tool], format: Format, *, required: bool) -> str:
    form = format.tool_calls
    assert form is not None
    signatures = "\n".join(json.dumps(tool.to_openai()["function"], ensure_ascii=False) for tool in tools)
    example = syntax(form.syntax).render(form, [Call("function_name", {"argument": "value"})], {})
    when = "Answer with a function call." if required else "Call a function when it helps; otherwise answer in text."
    return f"You have these functions:\n{signatures}\n{when} Write a call exactly like this:\n{example}"


def _response(response: ResponsePlan) -> str:
    match response.kind:
        case "json":
            schema = json.dumps(response.schema, ensure_ascii=False)
            return f"Answer with JSON only, one value that is valid under this JSON schema:\n{schema}"
        case "choice":
            options = "\n".join(response.choices)
            return f"Answer with exactly one of these options and nothing else:\n{options}"
        case "regex":
            return f"Answer with text that matches this regular expression and nothing else:\n{response.pattern}"
        case "lark" | "gbnf" | "llguidance":
            names = {"lark": "Lark", "gbnf": "GBNF", "llguidance": "llguidance"}
            return f"Answer with text of this {names[response.kind]} grammar and nothing else:\n{response.source}"
        case "structural_tag":
            return f"Answer in the form that this structural tag describes and nothing else:\n{response.source}"
    return ""
