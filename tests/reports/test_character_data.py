"""Kind: a string stands as it is, or between delimiters where it has characters of markup: both forms are read.

Sources: ml-explore/mlx-lm#1899, jundot/omlx#3530 (MiniCPM5).  The template below is made up; from the model's own
(xbl916/muse.cpp:models/templates/openbmb-MiniCPM5-1B.jinja) the same format is inferred, in every field.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.infer import Inference, infer
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.tool import Call, Tool
from guided.engine.engine import Engine
from guided.hf.model.renderers import template_renderer
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import engine_for, verified
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from tests.guided.output.test_cut_answers import read
from tests.judges.plans import accepts, write_to_the_end
from tests.made_up.call_templates import DELIMITED

TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\n' }}{{ tools | tojson }}{{ '<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' ~ ('user' if m.role == 'tool' else m.role) ~ '\\n' }}
{%- if m.role == 'assistant' %}{{ '<think>\\n' ~ (m.reasoning_content or '') ~ '\\n</think>\\n\\n' }}{% endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}{{ '\\n' if m.content or not loop.first }}
{{- '<function name="' ~ c.function.name ~ '">' }}
{%- for k, v in c.function.arguments.items() %}{{ '<param name="' ~ k ~ '">' }}
{%- if v is string and ('<' in v or '&' in v or '\\n' in v) %}{{ '<![CDATA[' ~ v ~ ']]>' }}{% else %}{{ v }}{% endif %}
{{- '</param>' }}{% endfor %}{{ '</function>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking %}{{ '<think>\\n' }}{% else %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"""

#: Of the model's vocabulary: all tags as tokens, some of them, none.
TAGS = ("<function", "</function>", "<param", "</param>", "<![CDATA[", "]]>")
VOCABULARIES = {"tokens": TAGS, "half": ("</function>", "</param>"), "open": ("<function", "<![CDATA["), "text": ()}


def inferred(tags: tuple[str, ...]) -> tuple[Inference, Engine]:
    texts = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", *tags)
    added = tuple(AddedToken(i, text, special=True) for i, text in enumerate(texts))
    tokens = SpecialTokens(TokenizerFacts(added, len(added), chat_template=TEMPLATE))
    found = verified(infer(template_renderer(TEMPLATE), tokens, template=TEMPLATE), tokens)
    assert (dict(found.format.evidence)["tool_calls"], found.notes) == ("rendering", ())
    return found, engine_for(found.format, tokens)


@pytest.fixture(scope="module", params=VOCABULARIES)
def model(request: pytest.FixtureRequest) -> tuple[Inference, Engine]:
    return inferred(VOCABULARIES[request.param])


STRING: dict[str, Any] = {"type": "string"}


def plan_of(model: tuple[Inference, Engine], *properties: dict[str, Any]) -> Any:
    members = dict(zip("xyz", properties, strict=False))
    schema = {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}
    parts = Parts(tools=[Tool("f", parameters=schema)], tool_choice="required")
    return compose(parts, tokens=model[1].tokens, format=model[0].format)


def arguments_of(model: tuple[Inference, Engine], plan: Any, text: str, entry: str = "after") -> Any:
    ids = model[1].tokenize(text)
    message = read(plan, model[1], ids, entry, ended=True)
    assert read(plan, model[1], ids, entry, range(1, len(ids)), ended=True) == message
    (call,) = message.tool_calls
    assert (call.name, message.content, message.unfinished) == ("f", None, None)
    return json.loads(call.arguments)


def written(*values: str) -> str:
    params = (f'<param name="{key}">{value}</param>' for key, value in zip("xyz", values, strict=False))
    return f'<function name="f">{"".join(params)}</function>'


BOTH = [
    ("Oslo", "Oslo"),
    ("<![CDATA[Oslo]]>", "Oslo"),
    ("", ""),
    ("<![CDATA[]]>", ""),
    (" a\n& b ", " a\n& b "),
    ("<![CDATA[ if a < b:\n  <b>&amp;]]>", " if a < b:\n  <b>&amp;"),
    ("<![CDATA[a]]]]>", "a]]"),
    ("5", "5"),
]


@pytest.mark.parametrize(("text", "value"), BOTH)
def test_both_forms_are_written_and_read(model: tuple[Inference, Engine], text: str, value: str) -> None:
    plan = plan_of(model, STRING, STRING)
    whole = written(text, "b")
    assert accepts(plan, model[1], whole, "after")
    assert arguments_of(model, plan, whole) == {"x": value, "y": "b"}


@pytest.mark.parametrize("text", ["a<b", "<i>", "x]]></param", "<![CDATA[a]]>b", "a<![CDATA[b]]>", "<![CDATA [a]]>"])
def test_markup_without_the_delimiters_is_not_written(model: tuple[Inference, Engine], text: str) -> None:
    assert not accepts(plan_of(model, STRING, STRING), model[1], written(text, "b"), "after")


def test_white_space_around_the_delimiters_belongs_to_no_value(model: tuple[Inference, Engine]) -> None:
    text = written("\n<![CDATA[a\n]]>\n", "b")
    assert arguments_of(model, plan_of(model, STRING, STRING), text) == {"x": "a\n", "y": "b"}


def test_no_value_swallows_the_next(model: tuple[Inference, Engine]) -> None:
    plan = plan_of(model, STRING, STRING)
    twice = written("a", "b").replace("</function>", '<param name="y">c</param></function>')
    assert not accepts(plan, model[1], twice, "after")
    for kind in (STRING, {"type": ["string", "object"]}, {"type": ["string", "array", "null"]}):
        plan = plan_of(model, kind, STRING)
        for text in ('{"a', '["', "{'"):
            assert arguments_of(model, plan, written(text, '"b"}')) == {"x": text, "y": '"b"}'}


TYPES = {"type": "object", "properties": {"n": {"type": "number"}, "s": STRING}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "true", True),
        ({"type": ["string", "null"]}, "None", None),
        ({"type": ["string", "null"]}, "<![CDATA[None]]>", "None"),
        (TYPES, '{"n": 1.5, "s": "</param>"}', {"n": 1.5, "s": "</param>"}),
        ({"type": ["integer", "string"]}, "12", 12),
        ({"type": ["integer", "string"]}, "<![CDATA[12]]>", "12"),
        ({"enum": ["a", "<b>", 3]}, "3", 3),
        ({"enum": ["a", "<b>", 3]}, "a", "a"),
        ({"enum": ["a", "<b>", 3]}, "<![CDATA[<b>]]>", "<b>"),
    ],
)
def test_values_of_other_types(model: tuple[Inference, Engine], schema: Any, text: str, value: Any) -> None:
    plan = plan_of(model, schema, STRING)
    if "</param>" not in text or model[1].tokens.id_of("</param>") is None:  # no token is part of a text
        assert accepts(plan, model[1], written(text, "b"), "after")
        assert arguments_of(model, plan, written(text, "b")) == {"x": value, "y": "b"}


def test_a_value_of_another_type_is_read_between_the_delimiters(model: tuple[Inference, Engine]) -> None:
    plan = plan_of(model, TYPES, {"type": "integer"})
    text = written('<![CDATA[{"n": 1, "s": "a < b"}]]>', "<![CDATA[5]]>")
    assert arguments_of(model, plan, text) == {"x": {"n": 1, "s": "a < b"}, "y": 5}


def test_what_python_prints_is_read(model: tuple[Inference, Engine]) -> None:
    plan = plan_of(model, TYPES, {"type": "array"})
    text = written("{'n': 1, 's': None}", "['a', True]")
    assert arguments_of(model, plan, text) == {"x": {"n": 1, "s": None}, "y": ["a", True]}


def test_a_string_is_dropped_only_where_neither_form_can_write_it(model: tuple[Inference, Engine]) -> None:
    plan = plan_of(model, {"enum": ["a]]>b", "<a]]>", "<b>"]})
    as_text = model[1].tokens.id_of("]]>") is None
    (row,) = plan.tool_report.narrowed if as_text else [None]
    assert row is None or "'<a]]>' cannot be written" in row.reason
    if as_text:
        assert accepts(plan, model[1], written("a]]>b"), "after")
        assert not accepts(plan, model[1], written("<![CDATA[a]]>b]]>"), "after")


@pytest.mark.parametrize("name", DELIMITED)
def test_what_ends_a_call_may_stand_between_the_delimiters(name: str) -> None:
    format = inference_of_template(DELIMITED[name])[0].format
    form = format.tool_calls
    value = f"<{form.call_end}\n</in>{form.call_end}{form.section_end}</param>{form.call_end}"
    text = syntax(form.syntax).render(form, [Call("f", {"x": value, "y": value})], {})
    as_text = SpecialTokens(TokenizerFacts((AddedToken(0, "[[end]]", special=True),), 1))
    model = inference_of_template(DELIMITED[name])[0], engine_for(format, as_text)
    plan = plan_of(model, STRING, STRING)
    assert accepts(plan, model[1], text)
    assert arguments_of(model, plan, text, "fresh") == {"x": value, "y": value}


@pytest.mark.parametrize("seed", range(6))
def test_what_masks_let_write_reads_back_as_it_stands(model: tuple[Inference, Engine], seed: int) -> None:
    """The judge: a value is what stands between the tags, or between the delimiters that stand there alone."""
    plan = plan_of(model, STRING, STRING)
    closers = ["]]>", "</param>", "</function>"]
    ids = write_to_the_end(plan, model[1], random.Random(seed), entry="after", closers=closers)
    text = b"".join(map(model[1].token_bytes, ids)).decode("utf-8", "replace").removesuffix("<|im_end|>")
    wanted = {}
    at = 0
    for key in "xy":
        at = text.index(f'<param name="{key}">', at) + len(f'<param name="{key}">')
        opening, closing = ("<![CDATA[", "]]>") if text.startswith("<![CDATA[", at) else ("", "</param>")
        end = text.index(closing, at)
        wanted[key] = text[at + len(opening) : end]
        at = end
    message = read(plan, model[1], ids, "after", ended=True)
    assert json.loads(message.tool_calls[0].arguments) == wanted
