"""Answers that are cut: no prefix of what a template renders shows markup as content, however it is split."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from unittest.mock import patch

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.check import TYPED_TOOLS
from grammars.formats.infer import Inference
from grammars.plan.plan import Plan
from grammars.values.format import Ends, Format, ToolCallFormat
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import byte_tokenizer, engine_for
from guided.output.message import Message, Usage
from guided.output.message_builder import MessageBuilder
from guided.output.parser import ContentDelta, OutputParser, UnfinishedMarkup
from guided.rows.answer import RowAnswer, read_answer
from tests.guided.output.test_parser import TOOLS, plan_of, tokens_of
from tests.judges.plans import END
from tests.made_up.call_templates import DELIMITED, JSON_VALUES, NUMBERED, SPELLED, TYPED
from tests.made_up.wire_forms import FORMS
from tests.shared_templates import shared_inference, template_names

MADE_UP = {
    f"{group}: {name}": template
    for group, templates in (
        ("numbered", NUMBERED),
        ("spelled", SPELLED),
        ("values", JSON_VALUES),
        ("delimited", DELIMITED),
        ("typed", TYPED),
    )
    for name, template in dict(templates).items()
}


def read(
    plan: Plan, engine: Engine, ids: Sequence[int], entry: str, splits: Sequence[int] = (), *, ended: bool = False
) -> Message:
    parser, builder, at = OutputParser(plan, engine, entry=entry), MessageBuilder(plan), 0
    with patch.object(OutputParser, "_new_id", lambda _, name, index: f"call_{index}"):
        for split in [*splits, len(ids)]:
            builder.add(parser.feed(ids[at:split]))
            at = split
        builder.add(parser.finish(is_cut=not ended))
    return builder.message(ended=ended, usage=Usage(), guidance=Guidance())


#: Of the prefixes one in this many is read: few in the default run, all in the slow one.
STEPS = [13, pytest.param(1, marks=pytest.mark.slow)]


#: Template -> the real tokenizer of the models that have it.
REAL = {
    "qwen3": "qwen3", "qwen3_coder": "qwen3", "qwen3_5": "qwen3_5", "gpt_oss": "gptoss", "llama3_1": "llama3_1",
    "hermes3": "llama3_1", "deepseek_v3_1": "deepseek_v3", "deepseek_v4": "deepseek_v4", "mistral_nemo": "mistral",
    "devstral_small": "mistral", "gemma3": "gemma3",
}  # fmt: skip


def leaks(inference: Inference, step: int, *, as_text: bool = False, engine: Engine | None = None) -> Iterator[str]:
    """Yield what is wrong in prefixes of the texts that the template rendered: content that is not the answer's own.

    ``as_text``: no marker is a token but the ends.
    """
    engine = engine or engine_for(inference.format)
    if as_text:
        ends = (*inference.format.ends.content, *inference.format.ends.calls)
        engine = Engine(*byte_tokenizer(ends, ends))
    plans = {
        thinking: compose(
            Parts(tools=list(TYPED_TOOLS.values()), thinking=thinking), tokens=engine.tokens, format=inference.format
        )
        for thinking in (True, None)
    }
    rng = random.Random(0)
    for number, golden in enumerate(inference.golden_texts):
        plan = plans[True if golden.reasoning else None]
        ids = engine.tokenize(golden.text)
        for end in range(number % step, len(ids) + 1, step):
            message = read(plan, engine, ids[:end], plan.entry(golden.entry).name)
            said, content = (message.content or "").strip(), golden.content.strip()
            written = engine_text(engine, ids[:end])
            if written.endswith("\ufffd"):  # inside a character
                continue
            if not content.startswith(said) or (message.content and not said):
                yield f"{written!r} reads as {message.content!r}"
            if any(call.arguments == "" and call.parsed is None for call in message.tool_calls):
                yield f"{written!r} has a call whose arguments have not begun"
            splits = sorted(rng.sample(range(end), min(3, end)))
            if read(plan, engine, ids[:end], plan.entry(golden.entry).name, splits) != message:
                yield f"{written!r} reads differently when it is split at {splits}"


def engine_text(engine: Engine, ids: Sequence[int]) -> str:
    return b"".join(map(engine.token_bytes, ids)).decode("utf-8", "replace")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", template_names())
def test_no_prefix_of_an_answer_of_a_family_leaks_markup(name: str, step: int) -> None:
    inference = shared_inference(name)
    assert list(leaks(inference, step))[:3] == []
    assert list(leaks(inference, 5 * step, as_text=True))[:3] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_no_prefix_of_an_answer_leaks_markup_with_the_real_tokenizer(
    real_engine: Callable[[str], Engine], name: str
) -> None:
    assert list(leaks(shared_inference(name), 1, engine=real_engine(REAL[name])))[:3] == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", MADE_UP)
def test_no_prefix_of_a_made_up_answer_leaks_markup(name: str, step: int) -> None:
    inference, _ = inference_of_template(MADE_UP[name])
    assert list(leaks(inference, step))[:3] == []


ARGUMENTS = '{"name": "get_weather", "arguments": {"city": "Oz"}}'


@pytest.mark.parametrize(
    ("text", "content", "unfinished"),
    [
        ("Hello.\n<tool_call>", "Hello.", "<tool_call>"),
        ('Hello.\n<tool_call>\n{"name": "get_w', "Hello.", '<tool_call>\n{"name": "get_w'),
        (f"<tool_call>\n{ARGUMENTS}\n</tool_call>\n<tool_call>\n{{", "", "<tool_call>\n{"),
        (f"<tool_call>\n{ARGUMENTS}", "", None),
        (f"<tool_call>\n{ARGUMENTS}\n</tool_call>\n", "", None),
        ("<think>\nHm", "", None),
    ],
)
def test_what_a_cut_leaves_of_a_call_is_unfinished(
    engine: Engine, plain_engine: Engine, text: str, content: str, unfinished: str | None
) -> None:
    for chosen in (engine, plain_engine):
        plan = plan_of(chosen, tools=TOOLS)
        message = read(plan, chosen, tokens_of(chosen, text), "fresh")
        assert (message.content or "").strip() == content
        assert message.unfinished == (UnfinishedMarkup(unfinished) if unfinished else None)
        assert "unfinished" not in message.to_chat()


@pytest.mark.parametrize(
    ("text", "content", "rest"),
    [
        ("Hello <", "Hello ", "<"),
        ("Hello <tool_", "Hello ", "<tool_"),
        (f"<tool_call>\n{ARGUMENTS}\n</tool_call>\nDone <tool_", "\nDone ", "<tool_"),
    ],
)
def test_what_may_begin_a_marker_is_content_only_where_the_model_ended(
    engine: Engine, plain_engine: Engine, text: str, content: str, rest: str
) -> None:
    """No ordinary token begins a marker that is a token itself."""
    plan, ids = plan_of(plain_engine, tools=TOOLS), tokens_of(plain_engine, text)
    cut, whole = (read(plan, plain_engine, ids, "fresh", ended=ended) for ended in (False, True))
    assert (cut.content, cut.unfinished) == (content, UnfinishedMarkup(rest))
    assert (whole.content, whole.unfinished) == (content + rest, None)
    for written in (plain_engine.tokenize(text), plain_engine.tokenize(text + END)):  # as rows are read
        row = RowAnswer(plan, plain_engine, on_error="unconstrained")
        for token in written:
            row.push(token)
        events = [*row.read(), *row.finish()]
        assert "".join(event.text for event in events if isinstance(event, ContentDelta)) == row.message().content
        assert row.message().content == (content if row.message().unfinished else content + rest)
        assert (row.message().unfinished is None) == row.is_done
        alone = read_answer(written, plan, plain_engine)
        assert (alone.content, alone.unfinished) == (row.message().content, row.message().unfinished)
    message = read(plan_of(engine, tools=TOOLS), engine, tokens_of(engine, text), "fresh")
    assert (message.content, message.unfinished) == (content + rest, None)


def test_a_cut_call_keeps_its_name_where_that_was_read() -> None:
    form = ToolCallFormat(
        "name_then_json", call_start="[TOOL_CALLS]", options=(("call", "$name[CALL_ID]$id[ARGS]$arguments"),)
    )
    format = Format("named", tool_calls=form, ends=Ends(("</s>",)))
    engine = engine_for(format)
    plan = compose(Parts(tools=TOOLS), tokens=engine.tokens, format=format)
    message = read(plan, engine, engine.tokenize("[TOOL_CALLS]get_weather[CALL_ID]abc"), "fresh")
    assert message.unfinished == UnfinishedMarkup("[TOOL_CALLS]get_weather[CALL_ID]abc", "get_weather")
    assert message.tool_calls == ()


def test_markers_in_text_come_out_as_the_tokenizer_writes_them(engine: Engine) -> None:
    """Tokens of unguided rows: before calls, in them, between them and after them."""
    plan = plan_of(engine, tools=TOOLS)
    call = f"<tool_call>\n{ARGUMENTS}\n</tool_call>"
    markers = ["</tool_call>", "<tool_call>", "</think>", "<arg_key>", "[TOOL_CALLS]"]
    rng = random.Random(1)
    for marker in markers:
        message = read(plan, engine, tokens_of(engine, f"{call} a {marker} b"), "fresh")
        assert message.content == f" a {marker} b"
    for _ in range(200):
        parts = rng.choices([*markers, call, ARGUMENTS, "text", '{"name": "', "\n"], k=6)
        ids = tokens_of(engine, "".join(parts))
        message = read(plan, engine, ids, "fresh")
        json.dumps(asdict(message), ensure_ascii=False).encode()  # a lone surrogate raises
        assert read(plan, engine, ids, "fresh", sorted(rng.sample(range(len(ids)), 2))) == message


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("bare", '{"name": "get_weather", "arguments": {"city": "Oz"}}'),
        ("tags", '<tool_call>\n{"name": "get_weather", "parameters": {"city": "Oz"}}\n</tool_call>'),
        ("key tags, tight", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oz</arg_value>\n</tool_call>"),
        ("xml", "<tool_call><function=get_weather><parameter=city>Oz</parameter></function></tool_call>"),
        ("xml", "<tool_call>\n<function=get_weather>\n<parameter=city>Oz\n</parameter>\n</function>\n</tool_call>"),
    ],
)
def test_arguments_under_the_other_key_or_inline_are_read(form: str, text: str) -> None:
    format = Format("other", tool_calls=FORMS[form], ends=Ends(("<|im_end|>",)))
    engine = engine_for(format)
    plan = compose(Parts(tools=TOOLS), tokens=engine.tokens, format=format)
    message = read(plan, engine, engine.tokenize(text), "fresh")
    assert [(call.name, call.parsed) for call in message.tool_calls] == [("get_weather", {"city": "Oz"})]
    assert message.content is None


def test_a_call_without_a_value_says_why(engine: Engine) -> None:
    plan = plan_of(engine, tools=TOOLS)
    for arguments, why in (('{"city": oops}', "not JSON"), ('{"city": "Oz"}, "x" "y"', "breaks off")):
        text = f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}}}\n</tool_call>'
        message = read(plan, engine, tokens_of(engine, text), "fresh", ended=True)
        assert message.tool_calls[0].parsed is None
        assert why in message.violations[0]


def test_a_call_that_the_model_ends_before_its_arguments_is_a_violation(engine: Engine) -> None:
    text = '<tool_call>\n{"name": "get_weather", "argu'
    message = read(plan_of(engine, tools=TOOLS), engine, tokens_of(engine, text), "fresh", ended=True)
    assert (message.content or "", message.tool_calls) == ("", ())
    assert message.unfinished == UnfinishedMarkup(text, "get_weather")
    assert message.violations == ("the call of 'get_weather' breaks off",)
