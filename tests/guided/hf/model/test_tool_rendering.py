"""Tools that a chat template cannot render are refused when the plan is made, by name and with the cure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import guided
from grammars.values.format import Format, InputNeeds, ToolCallFormat
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import TemplateError, ToolError
from tests.conftest import CHAT_TEMPLATE, make_tiny_guide
from tests.shared_templates import shared_template

CALLS = ToolCallFormat(
    "json_in_tags",
    call_start="<tool_call>\n",
    call_end="\n</tool_call>",
    options=(("args_key", "arguments"), ("name_key", "name")),
)
#: As Command R+ writes tools: text plus the description of each argument, which must be there.
TOOLS = (
    "{% for t in tools or [] %}{{ t.function.name + ': ' + t.function.description }}"
    "{% for n, p in t.function.parameters.properties | items %}{{ n + ' ' + p.type + ': ' + p.description }}"
    "{% endfor %}{% endfor %}"
)
RAG = Format("rag", tool_calls=CALLS, inputs=InputNeeds(tools="native", tool_calls="native"))


@pytest.fixture(scope="module", params=["made up", "command_r_plus"])
def guide(request: pytest.FixtureRequest) -> Any:
    if request.param == "command_r_plus":
        return make_tiny_guide(template=shared_template(request.param))
    return make_tiny_guide(template=TOOLS + CHAT_TEMPLATE, format=RAG)


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "parameters": {"type": "object", "properties": arguments}}


CITY = {"type": "string", "description": "The city."}
BARE = {"type": "string"}


def test_a_tool_without_descriptions_is_refused_by_plan(guide: Any) -> None:
    refused = (
        r"^tools\.get_weather: the chat template cannot render .*description.*\(give its arguments a description: "
    )
    tools = [tool("now"), tool("get_weather", city=BARE, unit=CITY, day=BARE)]
    with pytest.raises(ToolError, match=refused + r"city, day\)$"):
        guide.plan(tools=tools)
    body = {"model": "m", "messages": [], "tools": [{"type": "function", "function": each} for each in tools]}
    with pytest.raises(ToolError, match=refused):
        guide.plan(guided.read_request(body))

    def get_weather(city: str) -> str:
        return city

    with pytest.raises(ToolError, match=refused):
        guide.plan(tools=[get_weather])


def test_what_the_template_renders_is_planned(guide: Any) -> None:
    plan = guide.plan(tools=[tool("now"), tool("get_weather", city=CITY)])
    (ids,) = checked_inputs(guide.context, ["hi"], [plan]).prompt_ids
    assert "The city." in guide.tokenizer.decode(ids)


def test_templates_that_show_no_tools_refuse_none(guide: Any) -> None:
    described = replace(guide.format, inputs=replace(guide.format.inputs, tools="described"))
    plan = guided.Guide(guide.model, guide.tokenizer, format=described).plan(tools=[tool("f", x=BARE)])
    assert plan.tools[0].name == "f"


def test_a_tool_that_no_description_helps_is_refused_in_the_templates_words() -> None:
    template = TOOLS.replace("p.type + ': '", "p.type + ': ' + p.enum[0]") + CHAT_TEMPLATE
    guide = make_tiny_guide(template=template, format=RAG)
    with pytest.raises(ToolError, match=r"^tools\.f: the chat template cannot render this tool: .*enum") as caught:
        guide.plan(tools=[tool("f", x=CITY)])
    assert "description" not in caught.value.hint


def test_a_template_that_renders_nothing_is_no_fault_of_the_tools() -> None:
    guide = make_tiny_guide(template="{{ raise_exception('never') }}", format=RAG)
    plan = guide.plan(tools=[tool("f", x=BARE)])
    with pytest.raises(TemplateError, match="never"):
        checked_inputs(guide.context, ["hi"], [plan])
