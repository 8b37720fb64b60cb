"""Kind: what was written without masks is read as it was meant, and judged like what masks have guided.

Sources: vllm-project/vllm#37790 (unknown tools), vllm-project/vllm#35907 (recipients on the channel of analysis),
vllm-project/vllm#39294 (a header of Mistral's in a name).
"""

from __future__ import annotations

from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.compose.region_table import plan_without_masks
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from grammars.values.format import Ends, Format
from grammars.values.tool import Call
from guided.bitmask import is_allowed
from guided.engine.engine import Engine
from guided.hf.generate.call import parsed_answer
from guided.hf.model.tokenizer_context import TokenizerContext
from guided.inspect.accepts import acceptance
from guided.inspect.format_check import engine_for
from guided.rows.answer import RowAnswer, read_answer
from tests.guided.output.test_cut_answers import read
from tests.judges.plans import END, FORMAT, accepts, plan_of
from tests.made_up.wire_forms import FORMS
from tests.shared_templates import shared_inference

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("get_wether", '{"city": "Oslo"}', "no tool is called 'get_wether'"),
        ("get_weather", '{"city": 5}', "city: 5 is not of type 'string'"),
        ("get_weather", "{}", "'city' is a required property"),
        ("get_weather", '{"city": "Oslo", "day": 1}', "'day' was unexpected"),
        ("get_weather", "[]", "is not of type 'object'"),
        ("get_weather", '{"city": "Oslo"}', ""),
    ],
)
def test_calls_are_judged(engine: Engine, name: str, arguments: str, why: str) -> None:
    plan = plan_of(engine, tools=[TOOL])
    text = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
    message = read(plan, engine, engine.tokenize(text), "fresh", ended=True)
    assert message.ok == (not why)
    assert message.tool_calls[0].parsed == ({"city": "Oslo"} if message.ok else None)
    said = " ".join(message.violations)
    assert why in said
    assert said.startswith(f"the call of {name!r}: ") or message.ok


def _read(wire: Format, text: str, properties: dict[str, Any], ended: bool = True) -> Any:
    engine = engine_for(wire)
    tool = {"name": "f", "parameters": {"type": "object", "properties": properties}}
    plan = plan_without_masks(compose(Parts(tools=[tool]), tokens=engine.tokens, format=wire), Markers(engine.tokens))
    ids = engine.tokenize(text)
    message = read(plan, engine, ids, "fresh", ended=ended)
    assert read(plan, engine, ids, "fresh", range(1, len(ids)), ended=ended) == message
    return message


def _wire(name: str) -> Format:
    return Format(name, tool_calls=FORMS[name], ends=Ends((END,)))


def test_an_id_between_name_and_arguments_is_no_part_of_the_name() -> None:
    text = '[TOOL_CALLS]f[CALL_ID]abcdef123[ARGS]{"x": 1}[TOOL_CALLS]f[ARGS]{}'
    message = _read(_wire("name, separator"), text, {"x": {}})
    assert [(call.name, call.parsed) for call in message.tool_calls] == [("f", {"x": 1}), ("f", {})]
    assert message.tool_calls[0].id == "abcdef123"
    assert message.violations == ()


def test_a_name_without_its_namespace_is_read() -> None:
    call = '<|tool_call_begin|>%sf:0<|tool_call_argument_begin|>{"x": 1}<|tool_call_end|>'
    for lead in ("functions.", ""):
        text = f"<|tool_calls_section_begin|>{call % lead}<|tool_calls_section_end|>"
        message = _read(_wire("name and number"), text, {"x": {}})
        assert [(found.id, found.name, found.parsed) for found in message.tool_calls] == [
            ("functions.f:0", "f", {"x": 1})
        ]


@pytest.mark.parametrize("white", ["", " ", "\n", " \n"])
@pytest.mark.parametrize("name", ["granite3_3", "mistral_nemo"])
def test_white_space_after_a_marker_opens_calls_as_well(name: str, white: str) -> None:
    wire = shared_inference(name).format
    text = syntax(wire.tool_calls.syntax).render(wire.tool_calls, [Call("f", {"x": 1})], {})
    spread = text.replace("[{", f"{white}[{{", 1)
    assert spread != text or not white
    message = _read(wire, spread, {"x": {}})
    assert [(call.name, call.parsed) for call in message.tool_calls] == [("f", {"x": 1})]
    assert (message.content, message.violations) == (None, ())


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ('["a, b", "c}"]', ["a, b", "c}"]),
        ('{"a": "x:y", b:"z"}', {"a": "x:y", "b": "z"}),
        ('{a:["x \\"y\\"",<|"|>raw<|"|>,1]}', {"a": ['x "y"', "raw", 1]}),
        ('"S\\u00e3o"', "São"),
    ],
)
def test_strings_of_json_in_gemma_s_containers(written: str, wanted: Any) -> None:
    message = _read(_wire("gemma"), f"<|tool_call>call:f{{x:{written}}}<tool_call|>", {"x": {}})
    assert message.tool_calls[0].parsed == {"x": wanted}


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("'a' 'b'", "ab"),
        ("'a'  \"b'c\"", "ab'c"),
        ('"""a\n"b", c"""', 'a\n"b", c'),
        ("'''it's'''", "it's"),
        (r"r'C:\new'", r"C:\new"),
        (r'R"a\b"', r"a\b"),
        ("'it's \"so\"'", 'it\'s "so"'),
        ("''", ""),
    ],
)
@pytest.mark.parametrize("kind", [{"type": "string"}, {}])
def test_strings_as_python_writes_them(written: str, wanted: str, kind: dict[str, Any]) -> None:
    for more, others in ((", y=1", {"y": 1}), ("", {})):
        text = f"<|tool_call_start|>[f(x={written}{more})]<|tool_call_end|>"
        message = _read(_wire("pythonic"), text, {"x": kind, "y": {}})
        assert message.tool_calls[0].parsed == {"x": wanted, **others}


@pytest.fixture
def harmony() -> Format:
    return shared_inference("gpt_oss").format


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>analysis to=functions.f code<|message|>",
        "<|channel|>analysis to=functions.f <|constrain|>json<|message|>",
        " to=functions.f<|channel|>analysis code<|message|>",
        "<|channel|>commentary to=functions.f code<|message|>",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
    ],
)
@pytest.mark.parametrize("thought", ["", "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant"])
def test_a_recipient_on_any_channel_is_a_call(harmony: Format, header: str, thought: str) -> None:
    message = _read(harmony, thought + header + '{"x": 1}', {"x": {}})
    assert [(call.name, call.parsed) for call in message.tool_calls] == [("f", {"x": 1})]
    assert (message.content, message.reasoning) == (None, "Hm" if thought else None)


@pytest.mark.parametrize("name", ["gpt_oss", "command_r7b"])
def test_a_call_that_no_one_asked_for_shows_no_header(name: str) -> None:
    """Rows without tools, whose text has a frame of its own."""
    wire = shared_inference(name).format
    engine = engine_for(wire)
    plan = compose(Parts(thinking=True), tokens=engine.tokens, format=wire)
    text = syntax(wire.tool_calls.syntax).render(wire.tool_calls, [Call("f", {"x": 1})], {})
    message = read(plan, engine, engine.tokenize(text), "fresh", ended=True)
    assert (message.content, [call.name for call in message.tool_calls]) == (None, ["f"])
    assert message.violations == ("the call of 'f': no tool is called 'f'",)
    message = read(plan, engine, engine.tokenize(f"{wire.content.start}Hi{wire.content.end}"), "fresh", ended=True)
    assert (message.content, message.tool_calls) == ("Hi", ())


@pytest.mark.parametrize("kind", [" <|constrain|>json", "<|constrain|>json", " json"])
def test_the_type_of_a_final_message_is_no_content(harmony: Format, kind: str) -> None:
    thought = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant"
    for lead in (thought, ""):
        message = _read(harmony, f'{lead}<|channel|>final{kind}<|message|>{{"a": 1}}', {"x": {}})
        assert message.content == '{"a": 1}'


#: Real vocabularies whose engines the default run does without.
MORE = ("qwen3_5", "gptoss")


@pytest.mark.parametrize("vocabulary", ["qwen3", "llama3_1", *(pytest.param(v, marks=pytest.mark.slow) for v in MORE)])
def test_whole_answers_are_accepted_whatever_joins_a_marker(real_engine: Any, vocabulary: str) -> None:
    engine = real_engine(vocabulary)
    has_tokens = all(engine.tokens.id_of(text) is not None for text in ("<think>", "</think>", "<tool_call>"))
    format = FORMAT if has_tokens else Format("plain", tool_calls=FORMAT.tool_calls)
    plan = compose(Parts(tools=[TOOL], thinking=has_tokens or None), tokens=engine.tokens, format=format)
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a</b>"}}\n</tool_call>'
    for last in ("a", ".", ">", "\n", '"', "!", ")", " ", "}", "</"):
        lead = f"<think>\nHm{last}</think>\n\n" if has_tokens else ""
        for text in (f"{lead}So{last}{call}", f"{lead}{call}"):
            found = acceptance(plan, text, engine)
            assert (not found.is_cut, found.refused_at) == (True, None) or last == "</", (text, found)


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_an_object_with_a_type_in_front_is_a_call_as_well(choice: str) -> None:
    wire = _wire("bare")
    engine = engine_for(wire)
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"]}}
    plan = compose(Parts(tools=[tool], tool_choice=choice), tokens=engine.tokens, format=wire)
    for lead in ("", '"type": "function", '):
        text = f'{{{lead}"name": "f", "parameters": {{"x": %d}}}}'
        assert accepts(plan, engine, text % 2 + END)
        assert not accepts(plan, engine, text % 3 + END)
        message = read(plan, engine, engine.tokenize(text % 2), "fresh", ended=True)
        assert [(call.name, call.parsed) for call in message.tool_calls] == [("f", {"x": 2})]
        assert (message.content, message.violations) == (None, ())


#: Calls as models of formats without a marker write them, next to the spelling of their templates.
SPELLED = ('{"name":"f","KEY":{"x":1}}', '{"name":"f","KEY": {"x": 1}}', '{ "name": "f", "KEY": {"x": 1} }',
           '{ "name": "f", "KEY": {"x": 1}}', '\n{"name":"f","KEY":{"x":1}}\n')  # fmt: skip


@pytest.fixture(params=["phi4_mini", "llama3_1"])
def unmarked(request: pytest.FixtureRequest) -> tuple[Format, str]:
    wire = shared_inference(request.param).format
    return wire, str(wire.tool_calls.option("args_key"))


@pytest.mark.parametrize("written", SPELLED)
def test_an_object_alone_in_another_spelling_is_a_call(unmarked: tuple[Format, str], written: str) -> None:
    wire, key = unmarked
    message = _read(wire, written.replace("KEY", key), {"x": {}})
    assert [(call.name, call.parsed) for call in message.tool_calls] == [("f", {"x": 1})]
    assert (message.content, message.violations, message.unfinished) == (None, (), None)


@pytest.mark.parametrize("written", SPELLED)
@pytest.mark.parametrize("value", ["1", '"a"', "[]"])
def test_what_masks_let_through_as_text_stays_text(unmarked: tuple[Format, str], written: str, value: str) -> None:
    """The value is none of the tool's: no mask has guided it."""
    wire, key = unmarked
    text, engine = written.replace("KEY", key).replace("1", value), engine_for(wire)
    parameters = {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}
    plan = compose(Parts(tools=[{"name": "f", "parameters": parameters}]), tokens=engine.tokens, format=wire)
    row = RowAnswer(plan, engine)
    end = next(iter(plan.end_ids()))
    for token in [*engine.tokenize(text), end]:
        mask = row.token_mask()
        assert is_allowed(mask.words, token)
        row.push(token)
    for message in (row.message(), read_answer(row.tokens, plan, engine, sequence=row.sequence)):
        assert (message.content, message.tool_calls, message.violations) == (text, (), ())


def test_foreign_tokens_are_read_with_other_spellings(unmarked: tuple[Format, str], tiny_guide: Any) -> None:
    wire, key = unmarked
    context = TokenizerContext(tiny_guide.tokenizer, tiny_guide.context.tokens, wire)
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}
    plan = compose(Parts(tools=[tool]), tokens=context.tokens, format=wire)
    message = parsed_answer(context, context.engine.tokenize(f'{{"name":"f","{key}":{{"x":1}}}}'), plan)
    assert [(call.name, call.parsed) for call in message.tool_calls] == [("f", {"x": 1})]
    assert (message.content, message.violations) == (None, ())


@pytest.mark.parametrize("end", ["]", "]<|/tool_call|>", ""])
@pytest.mark.parametrize("count", [1, 2])
def test_calls_in_the_frame_that_phi_writes(count: int, end: str) -> None:
    wire = shared_inference("phi4_mini").format
    calls = ", ".join(f'{{"name": "f", "arguments": {{"x": {i}}}}}' for i in range(count))
    message = _read(wire, f"<|tool_call|>[{calls}{end}", {"x": {}})
    assert [(call.name, call.parsed) for call in message.tool_calls] == [("f", {"x": i}) for i in range(count)]
    assert (message.content, message.violations) == (None, ())
