"""Text that nothing guided is not a silent success: messages read off it say so."""

from __future__ import annotations

from typing import Any

import pytest

import guided
from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from tests.judges.generation import GuidedCall

SAID = "nothing guided this text"


def said(messages: list[guided.Message]) -> list[bool]:
    return [any(SAID in note for note in message.notes) for message in messages]


@pytest.mark.parametrize("made", [False, True], ids=["none were made", "made, and not passed"])
def test_forgotten_generate_kwargs_are_a_note(tiny_guide: Any, made: bool) -> None:
    plans = [tiny_guide.plan(response_format={"enum": [1, 2]}), None, guided.Stops(["never"])]
    inputs = checked_inputs(tiny_guide.context, ["a", "b", "c"], plans)
    if made:
        generate_kwargs(tiny_guide.context, inputs, plans)
    out = tiny_guide.model.generate(**inputs, max_new_tokens=4, do_sample=False)
    assert said(read_messages(tiny_guide.context, out, inputs, plans)) == [True, False, False]
    assert said(GuidedCall(tiny_guide, ["a", "b", "c"], plans).run(max_new_tokens=4)[1]) == [False] * 3


def test_notes_of_a_plan_are_logged_once(tiny_guide: Any, caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "object", "propertys": {"once": {}}}
    for _ in range(3):
        assert tiny_guide.plan(response_format=schema).notes
    tiny_guide.plan(response_format={"type": "integer"})
    assert sum("propertys" in record.message for record in caplog.records) == 1


def test_what_a_generation_config_asks_in_vain_is_logged_once(
    tiny_guide: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = tiny_guide.model.generation_config
    monkeypatch.setattr(config, "do_sample", True)
    monkeypatch.setattr(config, "typical_p", 0.5)
    for _ in range(3):
        tiny_guide.chat("hi", max_tokens=2)
    assert sum("typical_p" in record.message for record in caplog.records) == 1
