"""One token ends text and opens calls (GigaChat 3): the same answers in every loop."""

from __future__ import annotations

from typing import Any

import pytest

import guided
from tests.conftest import make_tiny_guide
from tests.guided.output.test_answer_end import CALL, FORMAT, SEP, TOOLS
from tests.judges.generation import GuidedCall
from tests.made_up.scripts import write

END = "<|im_end|>"
ANSWERS = {
    f"{CALL}{SEP}": (None, ["now"]),
    f"Hello.{CALL}{SEP}": ("Hello.", ["now"]),
    f"Hello.{CALL}{END}": ("Hello.", ["now"]),
    f"Hello.{SEP}{END}": ("Hello.", []),
    f"Hello.{END}": ("Hello.", []),
}


@pytest.fixture(scope="module")
def guide() -> Any:
    markers = ("<|im_start|>", END, SEP, "<|role_sep|>")
    return make_tiny_guide(markers, special=markers, format=FORMAT)


def said(message: Any) -> tuple[str | None, list[str]]:
    return message.content, [call.name for call in message.tool_calls if call.parsed == {}]


@pytest.mark.parametrize("text", ANSWERS)
def test_text_and_calls_come_out_of_every_loop(guide: Any, text: str) -> None:
    script, plan = guide.engine.tokenize(text), guide.plan(tools=TOOLS)
    chat = [{"role": "user", "content": "Hi"}]
    with write(guide, chat, script):
        message = guide.chat(chat, plan=plan, describe=False, max_tokens=200, trace=True)
        stream = guide.stream(chat, plan=plan, describe=False, max_tokens=200)
        shown = "".join(event.text for event in stream if isinstance(event, guided.ContentDelta))
        _, (read,) = GuidedCall(guide, [chat], [plan]).run(max_new_tokens=200)
    for one in (message, stream.message, read):
        assert said(one) == ANSWERS[text]
        assert list(one.token_ids) == script
        assert one.finish_reason == ("tool_calls" if "now" in text else "stop")
    assert shown == (ANSWERS[text][0] or "")
    assert message.trace.tokens[-1].region == "end"
