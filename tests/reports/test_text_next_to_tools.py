"""Kind: text that only looks like a call is text: a call opens with the name of a tool, and only where calls may stand.

Source: ggml-org/llama.cpp#18183 (JSON in an answer became a call).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.values.format import Ends, Format
from guided.engine.engine import Engine
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import engine_for
from tests.guided.output.test_cut_answers import read
from tests.judges.plans import END, walk
from tests.made_up.wire_forms import FORMS

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
)


def _plan(format: Format, **parts: Any) -> tuple[Any, Engine]:
    engine = engine_for(format)
    return compose(Parts(tools=[TOOL], **parts), tokens=engine.tokens, format=format), engine


def _call(name: str) -> str:
    return CALL.replace("parameters", "arguments") if name == "phi4_mini" else CALL


def _formats(shared: Any, name: str) -> Format:
    if name in FORMS:
        return Format("bare", tool_calls=FORMS[name], ends=Ends((END,)))
    path = shared / "data" / "templates" / f"{name}.jinja"
    if not path.is_file():
        pytest.skip("needs the shared chat templates, which are absent")
    return inference_of_template(path.read_text(encoding="utf-8"))[0].format


@pytest.mark.parametrize("name", ["llama3_1", "phi4_mini", "bare"])
def test_text_that_looks_like_a_call_is_text(shared: Any, name: str) -> None:
    plan, engine = _plan(_formats(shared, name))
    for text in TEXTS:
        ids = engine.tokenize(text)
        assert walk(plan, engine, ids).is_whole, text
        for splits in ((), range(1, len(ids))):
            message = read(plan, engine, ids, "fresh", splits, ended=True)
            assert (message.content, message.tool_calls, message.unfinished) == (text, (), None), text


@pytest.mark.parametrize("name", ["llama3_1", "phi4_mini", "bare"])
def test_a_call_at_the_start_is_a_call(shared: Any, name: str) -> None:
    plan, engine = _plan(_formats(shared, name))
    call = _call(name)
    assert walk(plan, engine, engine.tokenize(call)).is_whole
    for text in (call, "\n" + call, "  " + call):
        message = read(plan, engine, engine.tokenize(text), "fresh", ended=True)
        (found,) = message.tool_calls
        assert (found.name, json.loads(found.arguments)) == ("get_weather", {"city": "Oslo"})
        assert not message.content
    assert not walk(plan, engine, engine.tokenize('{"name": "get_weather", "oops": 1}')).is_whole


@pytest.mark.parametrize("name", ["llama3_1", "phi4_mini"])
def test_with_a_real_vocabulary(shared: Any, real_engine: Any, name: str) -> None:
    format, engine = _formats(shared, name), real_engine("llama3_1")
    plan = compose(Parts(tools=[TOOL]), tokens=engine.tokens, format=format)
    for text in (*TEXTS, _call(name)):
        assert walk(plan, engine, text).refused_at is None, text


def test_calls_are_still_the_only_answer_where_one_is_required(shared: Any) -> None:
    plan, engine = _plan(_formats(shared, "llama3_1"), tool_choice="required")
    assert walk(plan, engine, engine.tokenize(CALL)).is_whole
    assert not walk(plan, engine, engine.tokenize('{"name": "Bob"}')).is_whole
