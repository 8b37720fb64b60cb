"""The place of the pattern in a request that costs the engine most, for errors about limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grammars.plan.plan import Plan
from grammars.regular.lexer_cost import expanded_size
from grammars.regular.syntax.ecma import language
from grammars.values.json_pointer import escaped

__all__ = ["costliest_pattern_place"]

_MAX_VALUES = 20_000  # values looked at


def costliest_pattern_place(plan: Plan) -> str:
    """Return the place of the longest pattern in the plan's schemas, with its repeats written out.

    Without a pattern it is the response format's place; "" where there is no response format.
    """
    patterns: list[tuple[int, str]] = []
    response = plan.response
    if response is not None:
        patterns.append((0, "response_format"))
        patterns += _patterns(response.schema, "response_format")
    for tool in plan.tools:
        patterns += _patterns(tool.parameters, f"tools.{tool.name}.parameters")
    return max(patterns, key=lambda pair: pair[0], default=(0, ""))[1]


def _patterns(schema: Any, place: str) -> Iterator[tuple[int, str]]:
    """Cost and place of each pattern in ``schema``."""
    todo = [(schema, place)]
    for _ in range(_MAX_VALUES):
        if not todo:
            return
        value, at = todo.pop()
        if isinstance(value, dict):
            patterns = [value["pattern"]] if isinstance(value.get("pattern"), str) else []
            if isinstance(value.get("patternProperties"), dict):
                patterns += value["patternProperties"]
            yield from ((_cost(pattern), at) for pattern in patterns)
            todo += [(inner, f"{at}/{escaped(str(key))}") for key, inner in value.items()]
        elif isinstance(value, list):
            todo += [(inner, f"{at}/{i}") for i, inner in enumerate(value)]


def _cost(pattern: str) -> int:
    try:
        return expanded_size(language(pattern))
    except ValueError:
        return 0
