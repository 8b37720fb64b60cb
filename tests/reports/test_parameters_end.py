"""Kind: the tag that closes a parameter ends it wherever it stands, so that a call never swallows the next one.

Sources: ggml-org/llama.cpp#26763 (Qwen3.6), sgl-project/sglang#27337 (Qwen3-Coder).
"""

from __future__ import annotations

from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.infer import infer
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.tool import Call, Tool
from guided.engine.engine import Engine
from guided.hf.model.renderers import template_renderer
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import engine_for, verified
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from tests.judges.plans import walk
from tests.judges.tool_calls import calls_of, read, refused_at, section
from tests.made_up.wire_forms import FORMS
from tests.shared_templates import shared_inference, template_names

TOOL = Tool(
    "f",
    parameters={
        "type": "object",
        "properties": {"x": {"type": "string"}, "y": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["x", "y"],
    },
)
CALL = "<tool_call>\n<function=f>\n<parameter=x>\n%s<parameter=y>\nb\n</parameter>\n%s</function>\n</tool_call>"
TWICE = "<parameter=y>\nc\n</parameter>\n"


def arguments_of(engine: Engine, form: Any, text: str, tool: Tool = TOOL) -> list[Any]:
    return [call.arguments for call in calls_of(read(engine, form, {tool.name: tool}, text)[0])]


@pytest.mark.parametrize("vocabulary", ["qwen3_5", "qwen3"])
def test_a_closing_tag_on_the_line_of_the_value_ends_it(real_engine: Any, vocabulary: str) -> None:
    form = shared_inference("qwen3_coder").format.tool_calls
    engine = real_engine(vocabulary)
    node = section(engine, form, [TOOL])
    twice = CALL % ("a</parameter>\n", TWICE)
    assert refused_at(engine, node, twice) is not None
    assert len(twice.split("<parameter=y>")) == 3
    once = CALL % ("a</parameter>\n", "")
    assert refused_at(engine, node, once) is None
    assert arguments_of(engine, form, once) == [{"x": "a", "y": "b"}]
    assert arguments_of(engine, form, CALL % ("a\n</parameter>\n", "")) == [{"x": "a", "y": "b"}]
    assert arguments_of(engine, form, CALL % ("a\n\n</parameter>\n", "")) == [{"x": "a\n", "y": "b"}]
    assert arguments_of(engine, form, CALL % ("</parameter>\n", "")) == [{"x": "", "y": "b"}]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("5</parameter>", 5), ("\n5</parameter>", 5), ("\n5\n</parameter>", 5), (" 5 </parameter>", 5)],
)
def test_a_number_is_read_wherever_its_tag_stands(engine: Engine, written: str, wanted: int) -> None:
    text = (
        f"<tool_call>\n<function=f>\n<parameter=n>{written}\n<parameter=x>\na\n</parameter>\n</function>\n</tool_call>"
    )
    assert arguments_of(engine, FORMS["xml"], text) == [{"n": wanted, "x": "a"}]


def test_a_text_in_json_may_hold_the_tag(engine: Engine) -> None:
    tool = Tool("f", parameters={"type": "object", "properties": {"x": {"type": "array"}, "y": {"type": "string"}}})
    text = CALL % ('["a</parameter>b", 1]\n</parameter>\n', "")
    assert arguments_of(engine, FORMS["xml"], text, tool) == [{"x": ["a</parameter>b", 1], "y": "b"}]
    kinds = {"anyOf": [{"enum": ["one"]}, {"type": "array", "items": {"type": "string"}}]}
    tool = Tool("f", parameters={"type": "object", "properties": {"x": kinds, "y": {"type": "string"}}})
    assert refused_at(engine, section(engine, FORMS["xml"], [tool]), text.replace(", 1", "")) is None
    assert arguments_of(engine, FORMS["xml"], text, tool) == [{"x": ["a</parameter>b", 1], "y": "b"}]


@pytest.mark.parametrize("name", template_names())
def test_no_key_is_written_twice_and_no_tag_becomes_a_value(name: str) -> None:
    """A tag that closes a value on its own line, and a key that comes twice."""
    format = shared_inference(name).format
    form = format.tool_calls
    if form is None or form.syntax not in ("xml_equals", "invoke", "key_tags"):
        pytest.skip("arguments are JSON")
    engine = engine_for(format)
    plan = compose(Parts(tools=(TOOL,), tool_choice="required"), tokens=engine.tokens, format=format)
    text = syntax(form.syntax).render(form, [Call("f", {"x": "<x>", "y": "<y>"})], {"f": TOOL})
    begin, end = text.index("<x>") + 3, text.index("<y>")
    middle = text[begin:end]  # the tag that closes x, and that which opens y
    for between in (middle.lstrip(), "".join(middle.split("\n"))):
        whole = text[: begin - 3] + "a" + between + "b" + middle + "c" + text[end + 3 :]
        assert not walk(plan, engine, whole).is_whole
        for call in arguments_of(engine, form, whole):
            assert all("<" not in str(value) for value in call.values())


_SEPARATED = """\
{%- if tools %}[[tools]]{{ tools | tojson }}<|im_end|>{% endif %}
{%- for m in messages %}[[{{ m.role }}]]{{ m.content or '' }}
{%- for c in m.tool_calls or [] %}{{ '<invoke name="' ~ c.function.name ~ '">\\n' }}
{%- for k, v in c.function.arguments.items() %}{{ '\\n' if not loop.first }}
{{- '<parameter name="' ~ k ~ '">' }}{{ v if v is string else v | tojson }}</parameter>
{%- endfor %}{{ '\\n</invoke>' }}{% endfor %}<|im_end|>
{%- endfor %}
{%- if add_generation_prompt %}[[assistant]]{% endif %}"""


@pytest.mark.parametrize("markers", [("<|im_end|>",), ("<|im_end|>", "<invoke", "</invoke>", "</parameter>")])
def test_a_separator_may_be_what_the_end_of_the_call_begins_with(markers: tuple[str, ...]) -> None:
    added = tuple(AddedToken(i, text, special=True) for i, text in enumerate(markers))
    tokens = SpecialTokens(TokenizerFacts(added, len(added), chat_template=_SEPARATED))
    inference = infer(template_renderer(_SEPARATED), tokens, template=_SEPARATED)
    found, alone = verified(inference, tokens), inference_of_template(_SEPARATED)[0]
    assert found.format.tool_calls == alone.format.tool_calls
    assert found.format.tool_calls.option("separator") == "\n"
    assert dict(found.format.evidence)["tool_calls"] == "rendering"
