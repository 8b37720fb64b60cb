"""Rows without a plan are read as the model's format says: reasoning and content apart, no marker in either."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import guided
from grammars.values.format import ContentFormat, Ends, Format, ReasoningFormat
from guided.hf.generate.call import read_messages
from guided.hf.generate.inputs import checked_inputs
from guided.state.entry import begin_of
from tests.conftest import CHAT_TEMPLATE, make_tiny_guide
from tests.made_up.scripts import read_everywhere, write

CHANNELS = (
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>", "<|im_start|>",
    "<|im_end|>",
)  # fmt: skip
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
LEAD = "<|channel|>commentary<|message|>"
NEXT = "<|end|><|start|>assistant"
THINKING = Format(
    "tags", ReasoningFormat("<think>\n", "\n</think>\n\n", default_on=True), ends=Ends(("<|im_end|>",))
)  # fmt: skip
FRAMED = Format(
    "channels",
    ReasoningFormat(ANALYSIS, NEXT, default_on=True),
    ContentFormat(start=FINAL, lead_start=LEAD, lead_end=NEXT),
    ends=Ends(("<|return|>",), ("<|call|>",), ("<|end|>",)),
)

#: What the model writes -> reasoning, content, finish reason, reasoning tokens where counted by hand.
CHANNEL_ANSWERS = {
    f"{ANALYSIS}hm m{NEXT}{FINAL}Hello!<|return|>": ("hm m", "Hello!", "stop", 4),
    f"{FINAL}Hello!<|return|>": (None, "Hello!", "stop", 0),
    f"{ANALYSIS}hm{NEXT}{LEAD}I look.{NEXT}{FINAL}Yes<|return|>": ("hm", "I look.Yes", "stop", 2),
    f"{ANALYSIS}a{NEXT}{ANALYSIS}b{NEXT}{FINAL}c<|return|>": ("ab", "c", "stop", 2),
    f"{ANALYSIS}hm": ("hm", "", "length", 2),
    f"{ANALYSIS}hm{NEXT}{FINAL}He": ("hm", "He", "length", 2),
    "Hello!<|return|>": (None, "Hello!", "stop", 0),  # no frame at all
    # What no format names is shown without its markers.
    f"{ANALYSIS}hm{NEXT}<|channel|>odd<|message|>x<|return|>": ("hm", "oddx", "stop", 2),
    f"{FINAL}Hel<|constrain|>lo!<|start|><|return|>": (None, "Hello!", "stop", 0),
}  # fmt: skip
OPENED_ANSWERS = {
    "hm m\n</think>\n\nHello!<|im_end|>": ("hm m", "Hello!", "stop", None),
    "hm": ("hm", "", "length", 2),
    "a<x>b\n</think>\n\nHello!<|im_end|>": ("a<x>b", "Hello!", "stop", None),
}


@pytest.fixture(scope="module")
def channels() -> Any:
    """A guide of a gpt-oss-like model."""
    return make_tiny_guide(CHANNELS, special=CHANNELS, format=FRAMED)


@pytest.fixture(scope="module")
def opened() -> Any:
    """A guide of a model whose prompt opens the block of reasoning."""
    return make_tiny_guide(template=CHAT_TEMPLATE.replace("assistant\n", "assistant\n<think>\n"), format=THINKING)


CASES = [
    pytest.param(guide, text, wanted, id=f"{guide}: {text}")
    for guide, table in (("channels", CHANNEL_ANSWERS), ("opened", OPENED_ANSWERS))
    for text, wanted in table.items()
]


def check(message: Any, wanted: tuple[str | None, str, str, int | None]) -> None:
    reasoning, content, finish, count = wanted
    assert (message.reasoning, message.content, message.finish_reason) == (reasoning, content, finish)
    assert count is None or message.usage.reasoning_tokens == count
    assert message.tool_calls == ()
    assert message.error is None


@pytest.mark.parametrize(("name", "text", "wanted"), CASES)
def test_E2_rows_without_a_plan_are_read_by_the_format(
    name: str, text: str, wanted: Any, request: pytest.FixtureRequest
) -> None:
    """Texts of ``generate``, with stops and without, and those of our own loop and of a stream."""
    guide = request.getfixturevalue(name)
    for row in (None, guided.Stops(["never"])):
        *messages, events = read_everywhere(guide, guide.engine.tokenize(text), row)
        for message in messages:
            check(message, wanted)
        told = {"ReasoningDelta": "", "ContentDelta": ""}
        for event in events[:-1]:
            told[type(event).__name__] += event.text
        assert [*told.values()] == [wanted[0] or "", wanted[1]]


@pytest.mark.parametrize(
    ("prompt", "entry"),
    [(f"<|start|>user{FINAL}hi{NEXT}", "fresh"), (f"<|start|>assistant{ANALYSIS}hm{NEXT}", "after")],
)
def test_the_end_of_any_message_closes_no_reasoning_that_was_not_open(channels: Any, prompt: str, entry: str) -> None:
    assert begin_of(channels.plan(), channels.engine.tokenize(prompt), channels.engine).entry == entry


def test_a_stop_and_a_trace_of_a_plain_row(channels: Any) -> None:
    text = f"{ANALYSIS}hm{NEXT}{FINAL}Hello!<|return|>"
    script = channels.engine.tokenize(text)
    with write(channels, "hi", script):
        cut = channels.chat("hi", guided.Stops(["lo"]), temperature=0, max_tokens=len(script))
        (message,) = channels.generate(
            ["hi"], sampling=guided.Sampling(temperature=0), max_tokens=len(script), trace=True
        )
    assert (cut.reasoning, cut.content, cut.stop_reason) == ("hm", "Hel", "lo")
    regions = [token.region for token in message.trace.tokens]
    runs = [name for i, name in enumerate(regions) if i == 0 or regions[i - 1] != name]
    assert runs == ["marker", "reasoning", "marker", "content", "end"]
    assert (regions.count("reasoning"), regions.count("content")) == (2, 6)


def test_models_without_channels_read_plain_rows_as_text() -> None:
    guide = make_tiny_guide(("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
    assert guide.context.reader is None
    inputs = checked_inputs(guide.context, ["hi"])
    assert "engine" not in vars(guide.context)  # nothing was built for them
    script = guide.tokenizer.encode("Hello!<|im_end|>")
    (message,) = read_messages(guide.context, torch.tensor([[*inputs.prompt_ids[0], *script]]), inputs, [None])
    assert (message.reasoning, message.content) == (None, "Hello!")
