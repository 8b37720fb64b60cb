"""Call syntaxes are inferred from made-up templates: numbered calls, maps, JSON spelling, values, flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.infer import DESCRIBED_CALLS
from grammars.plan.plan import Plan
from grammars.values.format import Format, ToolCallFormat
from guided.engine.engine import Engine
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import engine_for
from guided.state.state import GuidanceState
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from special_tokens.errors import ToolError
from tests.judges.conversations import CONVERSATIONS, TOOLS, troubles
from tests.made_up.call_templates import ALONE, DELIMITED, JSON_VALUES, NUMBERED, SPELLED, TYPED
from tests.made_up.templates import each


def calls_of(template: str, *, text: bool = True) -> ToolCallFormat:
    found, _ = inference_of_template(template)
    assert dict(found.format.evidence)["tool_calls"] == "rendering", found.notes
    assert found.notes == ()
    names = [name for name in CONVERSATIONS if text or name != "text"]
    assert troubles(template, found.format, names) == []
    return found.format.tool_calls


#: Templates, and what the format of their calls says.
READ: dict[str, tuple[str, Callable[[ToolCallFormat], bool]]] = {
    name: (template, said)
    for templates, said in (
        (NUMBERED | SPELLED, lambda form: form.max_calls is None),
        (ALONE, lambda form: form.max_calls == 1),
        (JSON_VALUES, lambda form: form.option("strings") == "json"),
        (DELIMITED, lambda form: form.option("quote_end") in ("]]>", "⟫")),
    )
    for name, template in templates.items()
}


@pytest.mark.parametrize("name", READ)
def test_calls_are_read_off_their_renderings(name: str) -> None:
    template, said = READ[name]
    assert said(calls_of(template, text=name not in ALONE))


@pytest.mark.parametrize("name", TYPED)
def test_a_word_for_whole_numbers_is_told_from_that_for_others(name: str) -> None:
    form = calls_of(TYPED[name])
    assert "integer=" in str(form.option("types"))
    format = inference_of_template(TYPED[name])[0].format
    engine = engine_for(format)
    plan = compose(Parts(tools=[dict(tool) for tool in TOOLS]), tokens=engine.tokens, format=format)
    words = dict(pair.split("=") for pair in f"number=number {form.option('types')}".split())
    lead = '<do fn="get_weather"><arg is="city" as="' + words.get("string", "string") + '">A</arg><arg is="'
    for rest, is_legal in (
        (f'share" as="{words["number"]}">0.5<', True),
        (f'share" as="{words["integer"]}">2<', True),
        (f'share" as="{words["integer"]}">2.5<', False),
        (f'days" as="{words["integer"]}">2<', True),
        (f'days" as="{words["number"]}">2<', False),
    ):
        ids = engine.tokenize(lead + rest)[:-1]
        state = GuidanceState(plan, engine, entry="fresh")
        assert (state.validate(ids) == len(ids)) == is_legal, rest


# -- what a raw value cannot hold


RAW = each(
    "<do>\n<fn=NAME>\n{% for k, v in c.function.arguments.items() %}<arg={{ k }}>\n"
    "{{ v if v is string else v | tojson }}\n</arg>\n{% endfor %}</fn>\n</do>"
)


def text_engine(format: Format) -> Engine:
    """An engine whose vocabulary spells every tag in pieces."""
    return engine_for(format, SpecialTokens(TokenizerFacts((AddedToken(0, "[[end]]", True),), 1)))


def plan_of(template: str, schema: Any, key: str = "a") -> Plan:
    format = inference_of_template(template)[0].format
    assert format.tool_calls is not None
    assert format.tool_calls != DESCRIBED_CALLS
    parameters = {"type": "object", "properties": {key: schema}, "required": [key], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    return compose(Parts(tools=tools, tool_choice="required"), tokens=text_engine(format).tokens, format=format)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": "x\n</arg>\ny"},
        {"enum": ["x\n</arg>", "\n</arg>\n"]},
        {"type": "string", "pattern": "^<i>\n</arg>\n$"},
        {"type": "string", "pattern": "^(a|b)\n</arg>\nc+$", "minLength": 12},
        {"anyOf": [{"const": "\n</arg>"}, {"const": "q\n</arg>\nq"}]},
    ],
    ids=["constant", "all options", "pattern", "pattern and length", "union"],
)
def test_a_parameter_whose_every_value_holds_its_closing_tag_is_refused_with_its_name(schema: Any) -> None:
    with pytest.raises(ToolError, match=r"/tools/f/parameters/properties/a.*ends a value"):
        plan_of(RAW, schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["x\n</arg>\ny", "ok"]},
        {"type": ["string", "integer"], "enum": ["x\n</arg>\ny", 5]},
        {"anyOf": [{"const": "x\n</arg>\ny"}, {"type": "integer"}]},
    ],
    ids=["enum", "enum of two types", "union"],
)
def test_an_option_that_holds_the_closing_tag_is_dropped_and_listed(schema: Any) -> None:
    plan = plan_of(RAW, schema)
    rows = [row for row in plan.tool_report.narrowed if row.keyword == "enum"]
    assert [row.pointer for row in rows] == ["/tools/f/parameters/properties/a"]
    assert "'x\\n</arg>\\ny'" in rows[0].reason
    engine = text_engine(plan.format)
    left = "ok" if "ok" in str(schema) else "5"
    wrong = "<do>\n<fn=f>\n<arg=a>\nx\n</arg>"
    for text, is_legal in ((f"<do>\n<fn=f>\n<arg=a>\n{left}\n</arg>\n</fn>\n</do>", True), (wrong, False)):
        state = GuidanceState(plan, engine, entry="fresh")
        assert (state.validate(engine.tokenize(text)) == len(engine.tokenize(text))) == is_legal


def test_nothing_is_dropped_where_no_value_holds_the_closing_tag() -> None:
    assert plan_of(RAW, {"enum": ["x", "</arg >", "\n</ar"]}).tool_report.rows == ()


def test_a_constant_that_holds_the_delimiter_of_strings_is_refused() -> None:
    with pytest.raises(ToolError, match=r"contains '\]\]>', which ends a value"):
        plan_of(DELIMITED["character data"], {"const": "a]]>b"})
    assert plan_of(DELIMITED["character data"], {"const": "a</in>b"}).tool_report.rows == ()


def test_a_parameter_without_a_name_is_refused() -> None:
    with pytest.raises(ToolError, match=r"name '' is empty"):
        plan_of(RAW, {"type": "string"}, key="")


PYTHON = (NUMBERED["numbered results"], "is not a Python name")
QUOTED = (JSON_VALUES["a name in quotes"], "which ends a name")


@pytest.mark.parametrize(
    ("template", "message", "name", "key"),
    [
        *((*PYTHON, *names) for names in (("f", "class"), ("lambda", "a"), ("f", "a b"), ("my-tool", "a"))),
        *((*QUOTED, *names) for names in (('a"b', "k"), ("f", 'a"b'))),
    ],
    ids=["a keyword as key", "a keyword", "a blank", "a hyphen", "a quote", "a quote in a key"],
)
def test_names_that_the_calls_of_a_template_cannot_hold_are_refused(
    template: str, message: str, name: str, key: str
) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": {"properties": {key: {}}}}}]
    format = inference_of_template(template)[0].format
    with pytest.raises(ToolError, match=message):
        compose(Parts(tools=tools), tokens=text_engine(format).tokens, format=format)
