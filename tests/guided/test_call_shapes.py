"""How calls are written is read off templates that no model has: numbers, maps, spelling, values, flags."""

from __future__ import annotations

import re

import pytest

from grammars.formats.format import ToolCallFormat
from grammars.formats.infer import DESCRIBED_CALLS
from guided.hf.formats import inference_of_template
from tests.made_up_calls import ALONE, COUNTED, NUMBERED
from tests.own_words import CONVERSATIONS, troubles


def calls_of(template: str, *, text: bool = True) -> ToolCallFormat:
    found, _ = inference_of_template(template)
    assert dict(found.format.evidence)["tool_calls"] == "rendering", found.notes
    assert found.notes == ()
    assert found.format.tool_calls is not None
    names = [name for name in CONVERSATIONS if text or name != "text"]
    assert troubles(template, found.format, names) == []
    return found.format.tool_calls


@pytest.mark.parametrize("name", NUMBERED)
def test_calls_that_carry_their_number_follow_each_other(name: str) -> None:
    form = calls_of(NUMBERED[name])
    assert form.max_calls is None


@pytest.mark.parametrize("name", COUNTED)
def test_calls_that_tell_of_the_others_fall_back_and_say_so(name: str) -> None:
    template, why = COUNTED[name]
    found, _ = inference_of_template(template)
    assert found.format.tool_calls == DESCRIBED_CALLS
    assert re.search(why, " ".join(found.notes)), found.notes


@pytest.mark.parametrize("name", ALONE)
def test_calls_in_messages_of_their_own_are_one_a_turn(name: str) -> None:
    assert calls_of(ALONE[name], text=False).max_calls == 1
