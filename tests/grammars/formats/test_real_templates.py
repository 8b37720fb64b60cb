"""Real chat templates as judges: what they render, formats must write and read.

The templates are data that no one here wrote; they lie outside the repository, and the tests skip without them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from benchmarks.harmless import FITTING
from grammars.compose.compose import Parts, compose
from grammars.prompt.messages import messages_for, template_arguments
from grammars.values.format import Format
from grammars.values.tool import Tool
from guided.engine.engine import Engine
from guided.hf.model.renderers import NO_NAMES, mutable_renderer, template_renderer
from guided.hf.model.tokenizer import facts_of, tokenizer_json
from guided.hf.model.wire_format import inference_of
from guided.inspect.format_check import check_golden_texts, engine_for
from guided.rows.answer import read_answer
from guided.state.entry import Begin
from special_tokens import SpecialTokens
from special_tokens.errors import RequestError
from tests.shared_templates import shared_inference, shared_template, template_names

#: Templates that render no call (or whose calls transformers' sandbox refuses), and what is known instead.
OTHERS = {
    "gemma2": "fallback",
    "gemma3": "fallback",
    "phi3_5": "fallback",
    "smollm3": "fallback",
    "lfm2": "family lfm2",
    "granite3_3": "family granite3",
    "kimi_k2_thinking": "rendering outside the sandbox",
}

#: Where a rendering says something else than the table of families, and why the rendering is right.
DISAGREE = {
    ("apriel_1_6", "end"): "the template writes a line break in front of the marker too",
    ("gemma4", "end"): "the table describes this template in words",
    ("deepseek_v3_1", "empty"): "this copy's prompt opens and closes the block",
    ("deepseek_v3_1", "prompt_off"): "the same",
    ("qwq", "default_on"): "this copy closes the block unless enable_thinking is set",
    ("qwq", "switch"): "the same",
    ("qwq", "empty"): "the same",
    ("lfm2_5", "default_on"): "the table mentions variants; the template lets the model reason",
    ("lfm2", "reasoning"): "the table mentions variants; this template has none",
    ("kimi_k2", "reasoning"): "the table mentions variants; this template has none",
    ("devstral_small", "reasoning"): "the table mentions variants; this template has none",
    ("kimi_k2_thinking", "switch"): "the table's switch belongs to a later model",
    ("kimi_k2_thinking", "default_on"): "the template leaves reasoning to the model, which may skip it",
    ("gpt_oss", "switch"): "effort is not a switch: reasoning cannot be turned off",
}


@pytest.mark.parametrize("name", template_names())
def test_everything_that_a_template_writes_passes_the_masks_and_reads_back(name: str) -> None:
    found = shared_inference(name)
    known_by = dict(found.format.evidence)["tool_calls"]
    assert known_by == OTHERS.get(name, "rendering")
    assert found.golden_texts
    assert any(golden.calls for golden in found.golden_texts) == known_by.startswith("rendering")
    assert check_golden_texts(found.format, found.golden_texts, engine_for(found.format)) == ()
    assert bool(found.notes) == (name in OTHERS and not OTHERS[name].startswith("family"))  # whose file says it


@pytest.mark.parametrize("name", template_names())
def test_reasoning_is_framed_switched_and_prefilled_as_the_table_of_families_says(shared: Path, name: str) -> None:
    form = shared_inference(name).format.reasoning
    table = json.loads((shared / "data" / "families.json").read_text(encoding="utf-8"))["families"]
    expected = next(family for family in table if f"{name}.jinja" in family["templates"])["reasoning"]
    if (name, "reasoning") in DISAGREE:
        assert form is None
        return
    assert (form is None) == (expected is None)
    if form is None:
        return
    tail = expected["prompt_tail"]
    before_end = expected.get("before_end", expected["after_start"])
    wanted = {
        "start": expected.get("before_start", "") + expected["start"] + expected["after_start"],
        "end": before_end + expected["end"] + expected["after_end"],
        "empty": expected["empty_block"],
        "prompt_on": tail["on"],
        "prompt_off": tail["off"],
        "default_on": "on" in expected["default"].split()[0:2] or "on by" in expected["default"],
        "switch": expected["switch"],
    }
    read = {field: getattr(form, field) for field in wanted}
    read["switch"] = form.switch.name if form.switch else None
    for field, value in wanted.items():
        if value is None or (name, field) in DISAGREE:
            continue
        if field == "switch":
            assert read[field] is not None, field
            assert read[field] in value, field
        else:
            assert read[field] == value, field


@pytest.mark.parametrize("name", template_names())
def test_ends_are_those_of_the_table_of_families(shared: Path, name: str) -> None:
    ends = shared_inference(name).format.ends
    table = json.loads((shared / "data" / "families.json").read_text(encoding="utf-8"))["families"]
    row = next(family for family in table if f"{name}.jinja" in family["templates"])["ends"]
    named = NO_NAMES["eos_token"]
    legal = {*row["eos"], *row["also_accept"], named, "<|end_of_text|>", "<|eom_id|>"}
    assert {*ends.content, *ends.calls} <= legal
    assert named in ends.content or set(row["eos"]) & set(ends.content)
    not_ends = {marker.split()[0] for marker in row["not_an_end"]} - set(row["eos"])
    assert not not_ends & {*ends.content, *ends.calls}


# -- the template as a judge of parsing

WORDS = ("Paris", "a b", "12", "true", "null", "São Paulo", "x = 1; y", "0.5", "日本", "no-one", "C:/x")
TOOLS = (
    Tool("get_weather", "d", {"type": "object", "properties": {
        "city": {"type": "string", "description": "d"}, "days": {"type": "integer", "description": "d"},
        "exact": {"type": "boolean", "description": "d"}, "ratio": {"type": "number", "description": "d"}},
        "required": ["city"], "additionalProperties": False}),
    Tool("stop_it", "d", {"type": "object", "properties": {}, "additionalProperties": False}),
)  # fmt: skip


#: Templates that themselves write fewer calls than the protocol lets the model make.
#: DeepSeek-R1-Distill's closes its section after the second call and then goes on with a third.
MOST_CALLS = {"deepseek_r1_distill": 2}


def random_calls(rng: random.Random, most: int | None) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for _ in range(rng.randint(1, most or 3)):
        if rng.random() < 0.3:
            found.append(("stop_it", {}))
            continue
        values: dict[str, Any] = {"city": rng.choice(WORDS)}
        if rng.random() < 0.6:
            values["days"] = rng.randint(-3, 10**6)
        if rng.random() < 0.6:
            values["exact"] = rng.random() < 0.5
        if rng.random() < 0.6:
            values["ratio"] = rng.choice([0.5, -1.25, 3])
        found.append(("get_weather", values))
    return found


def own_text(name: str, format: Format, message: dict[str, Any]) -> str | None:
    """The assistant's text as rendered after the generation prompt; None where the template changes the prompt."""
    render = template_renderer(shared_template(name))
    user = {"role": "user", "content": "Userq"}
    kwargs = template_arguments(format, TOOLS)
    prompt = render(messages_for([user], format, TOOLS), add_generation_prompt=True, **kwargs)
    whole = render(messages_for([user, message], format, TOOLS), **kwargs)
    for tail in ("", *((format.reasoning.prompt_on, format.reasoning.prompt_off) if format.reasoning else ())):
        begun = prompt.removesuffix(tail)
        if whole.startswith(begun):
            return whole[len(begun) :]
    return None


@pytest.mark.parametrize("name", sorted(set(template_names()) - set(OTHERS)))
@pytest.mark.parametrize("seed", range(3))
def test_random_calls_rendered_by_the_template_are_read_back(name: str, seed: int) -> None:
    format = shared_inference(name).format
    rng = random.Random(f"{name} {seed}")
    made = random_calls(rng, MOST_CALLS.get(name, format.tool_calls.max_calls))
    given = [
        {"type": "function", "id": f"call{i:05d}", "function": {"name": n, "arguments": json.dumps(a)}}
        for i, (n, a) in enumerate(made)
    ]
    text = own_text(name, format, {"role": "assistant", "content": None, "tool_calls": given})
    if text is None:
        pytest.skip("the template's older turns begin otherwise than its prompt")
    engine = engine_for(format)
    plan = compose(Parts(tools=TOOLS), tokens=engine.tokens, format=format)
    ends = {engine.tokens.id_of(end) for end in (*format.ends.content, *format.ends.calls)}
    ids = []
    for token in engine.tokenize(text):
        if token in ends and token not in opening(format, engine):
            break
        ids.append(token)
    message = read_answer(ids, plan, engine, begin=Begin(plan.entry("fresh").name))
    assert (message.content or "").strip() in text.split(made[0][0])[0]
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == made


def opening(format: Format, engine: Any) -> set[int | None]:
    """Tokens that open calls, which may also be an end (a separator of messages)."""
    start = format.tool_calls.section_start + format.tool_calls.call_start
    return {piece for piece in engine.tokens.pieces(start) if isinstance(piece, int)}


# -- messages as clients send them


@pytest.mark.parametrize("name", template_names())
def test_messages_as_clients_send_them_render_wherever_the_template_can(name: str) -> None:
    """M7: arguments as JSON text, content null, parts, the developer's role, results by id, an empty result."""
    format = shared_inference(name).format
    renderer = mutable_renderer if OTHERS.get(name) == "rendering outside the sandbox" else template_renderer
    render = renderer(shared_template(name))
    chat = [
        {"role": "developer", "content": "Systemq"},
        {"role": "user", "content": [{"type": "text", "text": "Userq"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_abc", "type": "function", "function": {
            "name": "get_weather", "arguments": '{"city": "Cityq"}'}}]},
        {"role": "tool", "tool_call_id": "call_abc", "content": "Resultq"},
        {"role": "assistant", "content": "Answerq"},
        {"role": "user", "content": "Nextq"},
    ]  # fmt: skip
    text = render(messages_for(chat, format, TOOLS), add_generation_prompt=True, **template_arguments(format, TOOLS))
    for word in ("Userq", "get_weather", "Cityq", "Resultq", "Answerq", "Nextq"):
        assert word in text, word
    assert (
        text.index("Userq") < text.index("Cityq") < text.index("Resultq") < text.index("Answerq") < text.index("Nextq")
    )
    assert '\\"Cityq' not in text  # never encoded twice
    assert "None" not in text[text.index("Userq") : text.index("Nextq")]
    empty = [*chat[:3], {"role": "tool", "tool_call_id": "call_abc", "content": None}]
    render(messages_for(empty, format, TOOLS), add_generation_prompt=True, **template_arguments(format, TOOLS))


@pytest.mark.parametrize("name", template_names())
def test_what_a_template_cannot_show_is_an_error_that_names_the_place(name: str) -> None:
    format = shared_inference(name).format
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    with pytest.raises(RequestError, match=r"messages\[0\]\.content\[0\]: a part of type 'image_url' without text"):
        messages_for(picture, format)


def test_real_tokenizers_hold_the_traps_of_section_7(tokenizer_folder: Callable[[str], Path]) -> None:
    """Ends by region, with the ids of real vocabularies."""

    def ends(tokenizer_name: str, template_name: str) -> dict[str, set[str]]:
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(tokenizer_name))
        tokenizer.chat_template = shared_template(template_name)
        tokens = SpecialTokens(facts_of(tokenizer))
        format = inference_of(tokenizer, tokens).format
        plan = compose(Parts(tools=TOOLS), tokens=tokens, format=format)
        return {end.region.value: {tokens.text(i) for i in end.ids} for end in plan.ends}

    harmony = ends("gptoss", "gpt_oss")
    assert harmony["tool_calls"] == {"<|call|>"}
    assert harmony["content"] == {"<|return|>", "<|endoftext|>"}
    assert ends("qwen3", "qwen3")["content"] >= {"<|im_end|>"}
    assert ends("gemma3", "gemma3")["content"] == {"<end_of_turn>", "<eos>"}
    assert ends("mistral", "mistral_nemo")["tool_calls"] == {"</s>"}
    assert ends("deepseek_v3", "deepseek_v3_1")["content"] == {"<｜end▁of▁sentence｜>"}


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTING)
def test_golden_texts_under_a_real_tokenizer(tokenizer_folder: Callable[[str], Path], name: str) -> None:
    """The texts of a template, cut into the tokens of a real vocabulary, pass the masks and are read back."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(name))
    engine = Engine(tokenizer_json(tokenizer), SpecialTokens(facts_of(tokenizer)))
    for template in FITTING[name]:
        tokenizer.chat_template = shared_template(template)
        engine.tokens = SpecialTokens(facts_of(tokenizer))
        found = inference_of(tokenizer, engine.tokens)
        assert found.golden_texts, template
        assert check_golden_texts(found.format, found.golden_texts, engine) == (), template
