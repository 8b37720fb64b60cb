"""Kind: objects and lists in a call are elements in elements, with a mark in front of every tag.

Sources: ml-explore/mlx-lm#1416, ikawrakow/ik_llama.cpp#2008 (MiniMax M3).  The template below is made up; from the
model's own (xbl916/muse.cpp:models/templates/MiniMax-M3.jinja) the same format is inferred, in every field.
"""

from __future__ import annotations

import json
import random
from typing import Any
from xml.etree import ElementTree

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.infer import infer
from grammars.tool_calls.section import opening_marker
from grammars.values.format import Format
from grammars.values.tool import Tool
from guided.engine.engine import Engine
from guided.hf.model.renderers import template_renderer
from guided.inspect.format_check import engine_for, verified
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from special_tokens.errors import ToolError
from tests.cases import seeds
from tests.guided.output.test_cut_answers import read
from tests.judges.plans import accepts, write_to_the_end
from tests.made_up.schemas import closed

MARK = "]<]mark[>["
TEMPLATE = """\
{%- set mark = ']<]mark[>[' %}
{%- macro xml(v) %}
{%- if v is mapping %}{% for k, x in v.items() if x is not none %}{{ mark }}<{{ k }}>{{ xml(x) }}{{ mark }}</{{ k }}>
{%- endfor %}{% elif v is iterable and v is not string %}{% for x in v %}{{ mark }}<item>{{ xml(x) }}{{ mark }}</item>
{%- endfor %}{% elif v is boolean %}{{ v | tojson }}{% elif v is not none %}{{ v }}{% endif %}{% endmacro %}
{%- if tools %}{{ ']~b]developer\\n' }}{{ tools | tojson }}{{ '[e~[\\n' }}{% endif %}
{%- for m in messages %}{{ ']~b]' ~ ('ai' if m.role == 'assistant' else m.role) ~ '\\n' }}
{%- if m.role == 'assistant' %}
{{- '<mm:think>' ~ m.reasoning_content ~ '</mm:think>' if m.reasoning_content else '</mm:think>' }}{% endif %}
{{- m.content or '' }}
{%- if m.tool_calls %}{{ mark ~ '<tool_call>\\n' }}
{%- for c in m.tool_calls %}{{ mark ~ '<invoke name="' ~ c.function.name ~ '">' }}{{ xml(c.function.arguments) }}
{{- mark ~ '</invoke>\\n' }}{% endfor %}{{ mark ~ '</tool_call>' }}{% endif %}{{ '[e~[\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ ']~b]ai\\n' }}
{%- if thinking_mode == 'disabled' %}{{ '</mm:think>' }}{% elif thinking_mode == 'enabled' %}{{ '<mm:think>' }}
{%- endif %}{% endif %}"""


@pytest.fixture(scope="module", params=["token", "text"])
def model(request: pytest.FixtureRequest) -> tuple[Format, Engine]:
    texts = ("[e~[", "<mm:think>", "</mm:think>", "]~b]", *([MARK] if request.param == "token" else []))
    added = tuple(AddedToken(i, text, special=True) for i, text in enumerate(texts))
    tokens = SpecialTokens(TokenizerFacts(added, len(added), chat_template=TEMPLATE))
    found = verified(infer(template_renderer(TEMPLATE), tokens, template=TEMPLATE), tokens)
    assert (dict(found.format.evidence)["tool_calls"], found.notes) == ("rendering", ())
    form = found.format.tool_calls
    assert form.option("parameter") == f"{MARK}<$key>$value{MARK}</$key>"
    assert (opening_marker(form), form.call_end) == (f"{MARK}<tool_call>", f"{MARK}</invoke>\n")
    return found.format, engine_for(found.format, tokens)


STRING: dict[str, Any] = {"type": "string"}
POINT = closed({"x": {"type": "number"}, "name": STRING, "on": {"type": "boolean"}}, optional=["name", "on"])
LINE = {"type": "array", "items": {"$ref": "#/$defs/Point"}, "minItems": 1, "maxItems": 3}
TREE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "more": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["v"],
}


NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
    "required": ["v"],
}
DEFS = {"Point": POINT, "Line": LINE, "Tree": TREE, "Node": NODE}


def plan_of(model: tuple[Format, Engine], **properties: Any) -> Any:
    schema = {"type": "object", "properties": properties, "required": [*properties], "$defs": DEFS}
    parts = Parts(tools=[Tool("f", parameters=schema)], tool_choice="required", parallel_tool_calls=True)
    return compose(parts, tokens=model[1].tokens, format=model[0])


def rendered(model: tuple[Format, Engine], arguments: Any, *others: Any) -> str:
    """Calls as the template writes them."""
    calls = [{"function": {"name": "f", "arguments": found}} for found in (arguments, *others)]
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    text = template_renderer(TEMPLATE)([{"role": "user", "content": "Hi"}, message])
    return text[text.index(MARK) :].removesuffix("[e~[\n")


def arguments_of(model: tuple[Format, Engine], plan: Any, text: str) -> list[Any]:
    ids = model[1].tokenize(text)
    message = read(plan, model[1], ids, "after", ended=True)
    assert read(plan, model[1], ids, "after", range(1, len(ids)), ended=True) == message
    assert (message.content, message.unfinished) == (None, None)
    return [json.loads(call.arguments) for call in message.tool_calls]


SAID = [
    (POINT, {"x": 1.5, "name": "a <b> & \n c", "on": True}),
    (POINT, {"x": 2}),
    ({"$ref": "#/$defs/Point"}, {"x": 0, "on": False}),
    ({"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}, {"x": -3, "name": ""}),
    (LINE, [{"x": 1}, {"x": 2, "name": "item"}]),
    ({"type": "array", "items": STRING}, ["a", "", " b\n"]),
    ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, [[1, 2], [], [3]]),
    ({"type": "object", "properties": {"item": STRING, "line": LINE}}, {"item": "i", "line": [{"x": 1}]}),
    ({"type": "object", "properties": {"p": {"type": "object", "properties": {"q": POINT}}}}, {"p": {"q": {"x": 1}}}),
    ({"type": ["object", "null"], "properties": {"a": STRING}}, {"a": "b"}),
]


@pytest.mark.parametrize(("schema", "value"), SAID, ids=range(len(SAID)))
def test_what_the_template_renders_is_accepted_and_read(model: tuple[Format, Engine], schema: Any, value: Any) -> None:
    plan = plan_of(model, v=schema, s=STRING)
    arguments = {"v": value, "s": "end"}
    for text, calls in ((rendered(model, arguments), 1), (rendered(model, arguments, arguments), 2)):
        assert accepts(plan, model[1], text, "after"), text
        assert arguments_of(model, plan, text) == [arguments] * calls


UNSAID = [
    ({"type": "object"}, {"a": [1, {"b": "</v>"}]}),
    ({"type": "object", "additionalProperties": {"type": "number"}}, {"a b": 1}),
    ({"anyOf": [POINT, LINE]}, [{"x": 1}]),
    ({"properties": {"x": STRING}, "anyOf": [{"properties": {"x": {"minLength": 1}}}], "type": "object"}, {"x": "a"}),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, None),
    ({"type": "array", "prefixItems": [{"type": "integer"}], "items": STRING}, [1, "b"]),
    ({"enum": [{"a": 1}, [2]]}, [2]),
]


@pytest.mark.parametrize(("schema", "value"), UNSAID, ids=range(len(UNSAID)))
def test_what_elements_cannot_say_is_json(model: tuple[Format, Engine], schema: Any, value: Any) -> None:
    plan = plan_of(model, v=schema, s=STRING)
    text = rendered(model, {"v": json.dumps(value), "s": "end"})
    assert accepts(plan, model[1], text, "after")
    assert arguments_of(model, plan, text) == [{"v": value, "s": "end"}]


def test_a_schema_may_be_within_itself(model: tuple[Format, Engine]) -> None:
    plan = plan_of(model, t={"$ref": "#/$defs/Tree"}, n={"$ref": "#/$defs/Node"}, again={"$ref": "#/$defs/Node"})
    tree = {"v": 1, "more": [{"v": 2, "more": [{"v": 3}, {"v": 4, "more": []}]}, {"v": 5}]}
    node = {"v": 1, "next": {"v": 2, "next": {"v": 3}}}
    arguments = {"t": tree, "n": node, "again": {"v": 9}}
    text = rendered(model, arguments)
    assert accepts(plan, model[1], text, "after")
    assert arguments_of(model, plan, text) == [arguments]
    nothing = text.replace(f"{MARK}<v>9{MARK}</v>", f"{MARK}<v>9{MARK}</v>{MARK}<next>null{MARK}</next>")
    assert accepts(plan, model[1], nothing, "after")
    assert arguments_of(model, plan, nothing) == [{**arguments, "again": {"v": 9, "next": None}}]
    for wrong in (text.replace(f"<v>3{MARK}", f"<v>x{MARK}"), text.replace(f"{MARK}<v>3{MARK}</v>", "")):
        assert wrong != text
        assert not accepts(plan, model[1], wrong, "after")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, {"a": {"b": "1"}, "c": ["x", "y"]}),
        ({"type": "object"}, {"a": {"b": 1}, "c": [1, [2]]}),
        ({"anyOf": [POINT, LINE]}, [{"x": 1}]),
        ({"anyOf": [POINT, LINE]}, {"x": 1}),
        ({"$ref": "#/$defs/Tree"}, {"v": 1, "more": [{"v": 2, "more": [{"v": 3}]}]}),
        ({"type": ["string", "object"]}, {"a": "b"}),
        ({"type": ["string", "object"]}, "b"),
    ],
)
def test_elements_are_read_whatever_the_schema_says(model: tuple[Format, Engine], schema: Any, value: Any) -> None:
    """Without masks: what the template itself would write."""
    (found,) = arguments_of(model, plan_of(model, v=schema, s=STRING), rendered(model, {"v": value, "s": "end"}))
    assert json.dumps(found).replace('"1"', "1") == json.dumps({"v": value, "s": "end"}).replace('"1"', "1")


def test_white_space_between_elements_is_no_value(model: tuple[Format, Engine]) -> None:
    plan = plan_of(model, v=LINE, p=POINT)
    text = rendered(model, {"v": [{"x": 1, "name": "a"}], "p": {"x": 2}})
    spread = text.replace(f"{MARK}<item>", f"\n  {MARK}<item>").replace(f"{MARK}<x>", f"\n{MARK}<x>")
    assert spread != text
    assert arguments_of(model, plan, spread) == [{"v": [{"x": 1, "name": "a"}], "p": {"x": 2}}]


def test_names_that_no_tag_can_hold_are_refused(model: tuple[Format, Engine]) -> None:
    for schema in ({"type": "object", "properties": {"a>b": STRING}}, {"type": "object", "properties": {" a": STRING}}):
        with pytest.raises(ToolError, match="/tools/f/parameters/properties/v/properties/"):
            plan_of(model, v=schema)


WORD = {"type": "string", "pattern": "^[a-z]{1,3}$"}
SOME = {
    "type": "object",
    "properties": {"w": WORD, "n": {"type": "integer"}, "words": {**LINE, "items": WORD}},
    "required": ["w", "words"],
}


def judged(element: ElementTree.Element, schema: Any) -> Any:
    """The value of an element, as an XML parser finds its parts."""
    match schema["type"]:
        case "object":
            return {inner.tag: judged(inner, schema["properties"][inner.tag]) for inner in element}
        case "array":
            assert all(inner.tag == "item" for inner in element)
            return [judged(inner, schema["items"]) for inner in element]
        case "integer":
            return json.loads(element.text or "")
    return element.text or ""


@pytest.mark.parametrize("seed", seeds(40, default=10))
def test_what_masks_let_write_is_what_an_xml_parser_reads(model: tuple[Format, Engine], seed: int) -> None:
    schema = {"type": "object", "properties": {"one": SOME, "all": {"type": "array", "items": SOME}, "w": WORD}}
    plan = plan_of(model, **schema["properties"])
    closers = [f"{MARK}</{key}>" for key in ("w", "n", "item", "words", "one", "all", "invoke", "tool_call")]
    *ids, _ = write_to_the_end(plan, model[1], random.Random(seed), entry="after", closers=closers)
    text = b"".join(map(model[1].token_bytes, ids)).decode("utf-8")
    calls = ElementTree.fromstring(text.replace(MARK, ""))
    message = read(plan, model[1], ids, "after", ended=True)
    assert [json.loads(call.arguments) for call in message.tool_calls] == [judged(call, schema) for call in calls]
    assert message.violations == ()
