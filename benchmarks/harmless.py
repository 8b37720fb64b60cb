"""Benchmark: the masks must allow what a model would write without guidance (judged by chat templates).

Conversations with answers, reasoning and calls (values of every type) are rendered by each family's own chat template,
tokenised by a real tokenizer, and teacher-forced through the masks of a plan with the same tools.  A token whose bit
is not set would have been overridden; the first one of each text is listed with its cause.

    python benchmarks/harmless.py TEMPLATES_FOLDER TOKENIZERS_FOLDER [--markdown]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from grammars.compose.compose import Parts, compose
from grammars.prompt.messages import messages_for, template_arguments
from grammars.values.tool import Tool
from guided.bitmask import allocate_bitmask, is_allowed
from guided.engine.engine import Engine
from guided.hf.model.renderers import tokenizer_renderer
from guided.hf.model.tokenizer import facts_of, tokenizer_json
from guided.hf.model.wire_format import inference_of
from guided.state.entry import begin_of
from guided.state.state import GuidanceState
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError, TemplateError

__all__ = ["FITTING", "TemplateText", "judge"]

#: Tokenizer -> templates whose models have that vocabulary or a similar one.
FITTING: Mapping[str, Sequence[str]] = {
    "qwen3": ("qwen3", "qwen2_5", "qwq", "hermes3"),
    "qwen3_5": ("qwen3_5", "qwen3_coder"),
    "gptoss": ("gpt_oss",),
    "deepseek_v3": ("deepseek_v3", "deepseek_v3_1", "deepseek_r1_distill"),
    "deepseek_v4": ("deepseek_v4",),
    "mistral": ("mistral_nemo", "devstral_small", "ministral3_reasoning"),
    "llama3_1": ("llama3_1", "firefunction_v2"),
    "gemma3": ("gemma3", "gemma2"),
    "smollm2": ("smollm3",),
}

TOOL = Tool(
    "get_weather",
    "The weather.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "A place."},
            "days": {"type": "integer", "description": "How many."},
            "limit": {"type": "number", "description": "A bound."},
            "exact": {"type": "boolean", "description": "Is it?"},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
)
TIME = Tool("get_time", "The time.", {"type": "object", "properties": {}, "additionalProperties": False})
_USER = {"role": "user", "content": "What is the weather in Paris?"}
_REASON = 'The user asks for the weather.\nI will look it up, "quickly" & well.'


def conversations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return labels and assistant messages."""
    yield "answer", _assistant('It is sunny.\n\n- 20 °C\n- `{"a": 1}` and <b>wind</b>')
    yield "answer, reasoned", _assistant("It is sunny: 25 °C ☀.", reasoning_content=_REASON)
    plain = {"city": "Paris", "days": 3}
    yield "call", _assistant("", _call("get_weather", plain))
    yield "call, reasoned", _assistant("", _call("get_weather", plain), reasoning_content=_REASON)
    yield "text and call", _assistant("Let me see.", _call("get_weather", plain))
    yield "two calls", _assistant("", _call("get_weather", plain), _call("get_time", {}))
    yield "all types", _assistant("", _call("get_weather", plain | {"limit": 0.5, "exact": True}))
    yield "raw text", _assistant("", _call("get_weather", {"city": 'São "Paulo"\n<b>1 < 2</b> & more'}))


def _assistant(content: str, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **fields}
    if calls:
        message["tool_calls"] = [dict(call, id=f"callq{i:04d}") for i, call in enumerate(calls)]
    return message


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": dict(arguments)}}


@dataclass(frozen=True)
class TemplateText:
    """One text under one template and tokenizer: tokens allowed, and the first override with its cause."""

    template: str
    tokenizer: str
    what: str
    num_tokens: int
    override: str = ""
    cause: str = ""


def judge(template: str, tokenizer_name: str, tokenizer: Any, engine: Engine) -> Iterator[TemplateText]:
    """Return the rows of one template whose text ``tokenizer`` can encode."""
    tokens = engine.tokens
    format = inference_of(tokenizer, tokens).format
    render = tokenizer_renderer(tokenizer)
    for what, message in conversations():
        reasoned = "reasoning_content" in message
        if reasoned and (format.reasoning is None or format.inputs.reasoning_as in ("", "parts")):
            continue
        if message.get("tool_calls") and format.inputs.tool_calls != "native":
            continue
        try:
            plan = compose(Parts(tools=[TOOL, TIME], thinking=True if reasoned else None), tokens=tokens, format=format)
            kwargs = {**template_arguments(format, plan.tools), **dict(plan.template_kwargs)}
            prompt, whole = (
                render(messages_for(chat, format, plan.tools), add_generation_prompt=last, **kwargs)
                for chat, last in (([_USER], True), ([_USER, message], False))
            )
        except (TemplateError, GuidedError):
            continue
        found = _own(prompt, whole, format, reasoned=reasoned)
        if found is None:
            continue
        begun, text = found
        ids = tokenizer(begun + text, add_special_tokens=False)["input_ids"]
        prefix = tokenizer(begun, add_special_tokens=False)["input_ids"]
        if ids[: len(prefix)] != prefix:
            ids = [*prefix, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        yield _drive(plan, engine, TemplateText(template, tokenizer_name, what, 0), prefix, ids[len(prefix) :])


def _own(prompt: str, whole: str, format: Any, *, reasoned: bool) -> tuple[str, str] | None:
    """Return a prompt and the assistant's text after it.

    If the rendering does not begin with the whole prompt, the prompt's reasoning suffix is removed; if a template omits
    the opening marker from older turns, it is added again.
    """
    if reasoned and _REASON not in whole:
        return None
    form = format.reasoning
    if whole.startswith(prompt):
        return prompt, whole[len(prompt) :]
    for tail in (form.prompt_on, form.prompt_off) if form else ():
        begun = prompt.removesuffix(tail)
        if tail and whole.startswith(begun):
            text = whole[len(begun) :]
            return (prompt, text) if reasoned and not text.startswith(form.start) else (begun, text)
    return None


def _drive(plan: Any, engine: Engine, row: TemplateText, prompt: Sequence[int], ids: Sequence[int]) -> TemplateText:
    begin = begin_of(plan, prompt, engine)
    state = GuidanceState(plan, engine, entry=begin.entry)
    mask = allocate_bitmask(1, engine.vocab_size)
    for i, token in enumerate(ids):
        state.fill_bitmask(mask)
        if not is_allowed(mask[0], token):
            before = b"".join(map(engine.token_bytes, ids[:i])).decode("utf-8", "replace")[-24:]
            text = engine.token_bytes(token).decode("utf-8", "replace")
            cause = _cause(text, before, mask, engine)
            return TemplateText(row.template, row.tokenizer, row.what, i, f"{text!r} after {before!r}", cause)
        state.commit([token])
        if state.is_stopped:
            return TemplateText(row.template, row.tokenizer, row.what, i + 1)
    return TemplateText(row.template, row.tokenizer, row.what, len(ids), "" if state.is_accepting else "may not end")


def _cause(text: str, before: str, mask: Any, engine: Engine) -> str:
    """Return the kind of an override, from the text written and the tokens allowed instead."""
    if text.strip() in ("True", "False", "None") or text.strip("{[").startswith("'"):
        return "value spelled as Python"
    if not text.strip():
        return "white space"
    first = text.encode()[:1]
    allowed = [i for i in range(engine.vocab_size) if is_allowed(mask[0], i)][:4000]
    if any(engine.token_bytes(i)[:1] == first for i in allowed):
        return "token across a border"
    return "unescaped text"


def rows(templates: Path, tokenizers: Path) -> Iterator[TemplateText]:
    for name, fitting in FITTING.items():
        tokenizer = AutoTokenizer.from_pretrained(tokenizers / name)
        tokens = SpecialTokens(facts_of(tokenizer))
        engine = Engine(tokenizer_json(tokenizer), tokens)
        for template in fitting:
            tokenizer.chat_template = (templates / f"{template}.jinja").read_text(encoding="utf-8")
            engine.tokens = SpecialTokens(facts_of(tokenizer))
            yield from judge(template, name, tokenizer, engine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", type=Path)
    parser.add_argument("tokenizers", type=Path)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    found = list(rows(options.templates, options.tokenizers))
    for row in found:
        if row.override:
            print(f"{row.template:22} {row.tokenizer:12} {row.what:18} {row.cause:26} {row.override}")
    tokens, bad = sum(row.num_tokens for row in found), [row for row in found if row.override]
    print(
        f"{len(found)} texts, {tokens} tokens, {len(bad)} texts with an override: {dict(Counter(r.cause for r in bad))}"
    )


if __name__ == "__main__":
    main()
