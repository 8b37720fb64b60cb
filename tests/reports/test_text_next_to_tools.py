"""Kind: text that only looks like a call is text: a call opens with the name of a tool, and only where calls may stand.

Source: ggml-org/llama.cpp#18183 (JSON in an answer became a call).
"""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.compose.region_table import plan_without_masks
from grammars.formats.infer import infer
from grammars.tree.markers import Markers
from grammars.values.format import Ends, Format
from guided.engine.engine import Engine
from guided.hf.model.renderers import template_renderer
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import byte_tokenizer, engine_for, verified
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from tests.guided.output.test_cut_answers import read
from tests.judges.plans import END, walk, write_to_the_end
from tests.made_up.wire_forms import FORMS
from tests.shared_templates import shared_inference

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL = '{"name": "get_weather", "parameters": {"city": "Oslo"}}'
TEXTS = (
    'A package.json is\n{"name": "app", "version": "1.0"}\nas you see.',
    '{"name": "Bob"}',
    '{"name": "Bob", "parameters": {}}',
    '{"name": "get_weather_of_mars", "parameters": {}}',
    '{"names": ["get_weather"]}',
    f"You would write {CALL} for that.",
    f'[1] {CALL}\n{{"name": "x"}}',
    "{",
    '{"name": "get_weath',
    '  {"name": "x"}',
    '{"name":"g","parameters":{}}',
    '{"name":"get_weather","version":1}',
    '{"name":"get_weather"}',
    '<|tool_call|>[{"name": "package"}]',
)


def _plan(format: Format, **parts: Any) -> tuple[Any, Engine]:
    engine = engine_for(format)
    return compose(Parts(tools=[TOOL], **parts), tokens=engine.tokens, format=format), engine


def _call(name: str) -> str:
    return CALL.replace("parameters", "arguments") if name == "phi4_mini" else CALL


def _formats(name: str) -> Format:
    if name in FORMS:
        return Format("bare", tool_calls=FORMS[name], ends=Ends((END,)))
    return shared_inference(name).format


@pytest.mark.parametrize("name", ["llama3_1", "phi4_mini", "bare"])
def test_text_that_looks_like_a_call_is_text(name: str) -> None:
    plan, engine = _plan(_formats(name))
    unmasked = plan_without_masks(plan, Markers(engine.tokens))
    for text in (*TEXTS, *(text.replace("parameters", "arguments") for text in TEXTS if "parameters" in text)):
        ids = engine.tokenize(text)
        assert walk(plan, engine, ids).is_whole, text
        for reader, splits in product((plan, unmasked), ((), range(1, len(ids)))):
            message = read(reader, engine, ids, "fresh", splits, ended=True)
            assert (message.content, message.tool_calls, message.unfinished) == (text, (), None), text


@pytest.mark.parametrize("name", ["llama3_1", "phi4_mini", "bare"])
def test_a_call_at_the_start_is_a_call(name: str) -> None:
    plan, engine = _plan(_formats(name))
    call = _call(name)
    assert walk(plan, engine, engine.tokenize(call)).is_whole
    for text in (call, "\n" + call, "  " + call):
        message = read(plan, engine, engine.tokenize(text), "fresh", ended=True)
        (found,) = message.tool_calls
        assert (found.name, json.loads(found.arguments)) == ("get_weather", {"city": "Oslo"})
        assert not message.content
    assert not walk(plan, engine, engine.tokenize('{"name": "get_weather", "oops": 1}')).is_whole


@pytest.mark.parametrize("name", ["llama3_1", "phi4_mini"])
def test_with_a_real_vocabulary(real_engine: Any, name: str) -> None:
    format, engine = _formats(name), real_engine("llama3_1")
    plan = compose(Parts(tools=[TOOL]), tokens=engine.tokens, format=format)
    for text in (*TEXTS, _call(name)):
        assert walk(plan, engine, text).refused_at is None, text


def test_calls_are_still_the_only_answer_where_one_is_required() -> None:
    plan, engine = _plan(_formats("llama3_1"), tool_choice="required")
    assert walk(plan, engine, engine.tokenize(CALL)).is_whole
    assert not walk(plan, engine, engine.tokenize('{"name": "Bob"}')).is_whole


#: The form of Functionary v3.2, from whose template the same calls and frames of text are inferred
#: (ikawrakow/ik_llama.cpp:models/templates/meetkai-functionary-medium-v3.2.jinja).
_NAMED = """\
{%- for m in messages %}<|head|>{{ m.role }}<|body|>
{%- if m.role == 'assistant' %}{% if m.content %}>>>all\n{{ m.content }}{% endif %}
{%- for c in m.tool_calls or [] %}>>>{{ c.function.name }}\n{{ c.function.arguments | tojson }}{% endfor %}
{%- else %}{% if loop.first and tools %}{{ tools | tojson }}{% endif %}{{ m.content }}{% endif %}<|eot|>
{%- endfor %}
{%- if add_generation_prompt %}<|head|>assistant<|body|>>>>{% endif %}"""


@pytest.fixture(params=[(), (">>>",)], ids=["text", "token"])
def named(request: pytest.FixtureRequest) -> tuple[Format, Engine]:
    """A format whose parts begin by a mark and a name, ``all`` for text, and whose prompt ends with that mark."""
    added = tuple(AddedToken(i, text, special=True) for i, text in enumerate(("<|eot|>", "<|head|>", *request.param)))
    tokens = SpecialTokens(TokenizerFacts(added, len(added), chat_template=_NAMED))
    found = verified(infer(template_renderer(_NAMED), tokens, template=_NAMED), tokens)
    assert (dict(found.format.evidence)["tool_calls"], found.notes) == ("rendering", ())
    assert {golden.content for golden in found.golden_texts if golden.calls} == {"", "Textq5"}
    return found.format, engine_for(found.format, tokens)


@pytest.mark.parametrize("content", ["", "I will look.", "a >> b\n", "get_weather\n", "all\nx"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_text_and_calls_that_a_mark_and_a_name_part(named: tuple[Format, Engine], content: str, count: int) -> None:
    format, engine = named
    calls = ['get_weather\n{"city": "Oslo >>> get_weather\\n{}"}', "get_weather\n{}"][:count]
    if ">>>" in str(calls) and engine.tokens.id_of(">>>") is not None:
        calls = [call.replace(">>>", "->") for call in calls]  # a token is not part of a text
    text = ">>>".join([*([f"all\n{content}"] if content or not count else []), *calls])
    plan = compose(Parts(tools=[TOOL]), tokens=engine.tokens, format=format)
    ids = engine.tokenize(text)
    assert walk(plan, engine, ids).is_whole, text
    for splits in ((), range(1, len(ids))):
        message = read(plan, engine, ids, "fresh", splits, ended=True)
        assert ((message.content or ""), message.unfinished, message.violations) == (content, None, ())
        assert [f"{call.name}\n{call.arguments}" for call in message.tool_calls] == calls


@pytest.mark.parametrize("text", [">>> 1 + 1\n2", "so >>>", ">>>get_weather_of_mars\n{}", ">>>get_weather {}", ">>>>"])
def test_the_mark_alone_opens_no_call(text: str) -> None:
    format = inference_of_template(_NAMED)[0].format
    engine = Engine(*byte_tokenizer(("<|eot|>",), ("<|eot|>",)))
    for parts in ({"tools": [TOOL]}, {}):
        plan = compose(Parts(**parts), tokens=engine.tokens, format=format)
        assert walk(plan, engine, f"all\n{text}").is_whole
        message = read(plan, engine, engine.tokenize(f"all\n{text}"), "fresh", ended=True)
        assert (message.content, message.tool_calls, message.violations) == (text, (), ())
    assert walk(plan, engine, f"all\n{text}>>>get_weather\n{{}}").is_whole  # without tools


def test_a_call_after_text_is_held_to_its_schema(named: tuple[Format, Engine]) -> None:
    format, engine = named
    plan = compose(Parts(tools=[TOOL]), tokens=engine.tokens, format=format)
    assert walk(plan, engine, 'all\nSo.>>>get_weather\n{"city": 1}').refused_at is not None
    required = compose(Parts(tools=[TOOL], tool_choice="required"), tokens=engine.tokens, format=format)
    assert not walk(required, engine, "all\nSo.>>>get_weather\n{}").is_whole
    assert walk(required, engine, "get_weather\n{}").is_whole


@pytest.mark.parametrize("seed", range(8))
def test_what_masks_let_write_is_text_and_calls(named: tuple[Format, Engine], seed: int) -> None:
    format, engine = named
    plan = compose(Parts(tools=[TOOL]), tokens=engine.tokens, format=format)
    opener = ">>>get_weather\n"
    closers = ['"', "}", '": 1}', "]}", "{}"]
    ids = write_to_the_end(plan, engine, random.Random(seed), openers=[opener, "all\n"], closers=closers)
    text = b"".join(map(engine.token_bytes, ids[:-1])).decode("utf-8", "replace")
    message = read(plan, engine, ids[:-1], "fresh", ended=True)
    assert (message.violations, message.unfinished) == ((), None), text
    before, _, _ = text.partition(opener)
    is_text = text.startswith("all\n")
    assert (message.content or "") == (before.removeprefix("all\n") if is_text else ""), text
    assert bool(message.tool_calls) == (opener in text or not is_text)
