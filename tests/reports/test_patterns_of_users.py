"""Kind: a pattern is read as its owner reads it; the judges are Python's ``re`` and pydantic.

Source: the reports and the tests of guidance, vLLM and xgrammar that this project was run on; no thread of their own.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from pydantic import StringConstraints, TypeAdapter

import guided
from guided.engine.engine import Engine
from tests.judges.plans import END, PLAIN, accepts, plan_of
from tests.made_up.schemas import closed

TYPES: dict[str, tuple[Any, list[str]]] = {
    "spaces that are none": (re.compile("a b", re.X), ["a b", "ab", "xab"]),
    "a named class": (r"^[[:upper:]]{2}$", ["AB", "[:", ":]", "ab"]),
    "letters of names": (r"^[\w .'-]{2,40}$", ["José", "O'Neil", "J", "J!"]),
    "no case": (re.compile("^ok$", re.I), ["OK", "oK", "o"]),
}


@pytest.mark.parametrize("policy", ["warn", "strict"])
@pytest.mark.parametrize("case", TYPES)
def test_masks_write_what_the_type_reads(engine: Engine, case: str, policy: str) -> None:
    pattern, texts = TYPES[case]
    python_type = Annotated[str, StringConstraints(pattern=pattern)]
    plan = plan_of(engine, PLAIN, response_format=python_type, schema_policy=policy)
    for text in texts:
        right = TypeAdapter(python_type).validator.isinstance_python(text)
        assert accepts(plan, engine, f'"{text}"{END}') == right, text


@pytest.mark.parametrize("pattern", [r"^\<[a-z]\>$", r"^\-\_\<$", r"^\@\:\>$"])
@pytest.mark.parametrize("as_tool", [False, True])
def test_an_escaped_sign_is_the_sign_in_a_schema_and_in_a_tool(engine: Engine, pattern: str, as_tool: bool) -> None:
    schema = closed({"p": {"type": "string", "pattern": pattern}})
    text = '{"p": "%s"}'
    if as_tool:
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        plan = plan_of(engine, PLAIN, tools=[tool], tool_choice="required")
        text = '<tool_call>\n{"name": "f", "arguments": ' + text + "}\n</tool_call>"
    else:
        plan = plan_of(engine, PLAIN, response_format=guided.JsonSchema(schema))
    for value in ("<a>", "-_<", "@:>", "a", "\\\\<a>"):
        assert accepts(plan, engine, text % value + END) == bool(re.search(pattern, value)), value
