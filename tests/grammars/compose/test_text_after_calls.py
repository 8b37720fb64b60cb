"""C7: text after calls, by option and by the family's own habit; masks, parser and stream agree."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from grammars.compose.tool_section import with_text_after_calls
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import Ends, Format
from grammars.values.tool import Call
from guided.engine.engine import Engine
from guided.inspect.format_check import engine_for
from special_tokens.errors import ModelError
from tests.grammars.compose.test_asked_for import FEW, MANY, TABLE, TOOLS, troubles
from tests.guided.output.test_cut_answers import read
from tests.judges.plans import END, FORMAT, accepts, plan_of
from tests.made_up.wire_forms import FORMS
from tests.shared_templates import shared_inference, template_names

#: Families whose own templates write text after calls, and those in whose format nothing can follow one.
HABIT = {"gemma4"}
IMPOSSIBLE = {
    "command_r7b", "devstral_small", "firefunction_v2", "gigachat3", "gpt_oss", "granite3_3", "llama3_1",
    "llama4_pythonic", "ministral3_reasoning", "mistral_nemo", "phi4_mini",
}  # fmt: skip


#: Where text after calls may come, and where it may not although calls do; the others in the slow run.
AFTER = [row for row in TABLE if row[0] in ("auto", "auto of get_weather")] + [("required", False)]


def allowing(format: Format, allowed: bool | None = True) -> Format | None:
    try:
        return with_text_after_calls(format, allowed)
    except ModelError as error:
        assert "this model ends its turn after a call" in str(error)
        return None


def _texts(format: Format) -> list[tuple[str, int, str]]:
    """Answers, the number of their calls, and their text, which is legal only where the option allows it."""
    form = format.tool_calls

    def calls(*names: str) -> str:
        return syntax(form.syntax).render(form, [Call(name, {}) for name in names], {})

    now, two = calls("now"), calls("now", "now")
    texts = [(now, 1, ""), (f"{now} It is late.", 1, "It is late.")]
    if form.max_calls is None:
        texts += [
            (two, 2, ""),
            (f"{now} And again: {now}", 2, "And again:"),
            (f"{two} So {now} it is.", 3, "So it is."),
        ]
    return texts


def _check(format: Format, engine: Engine, allowed: bool) -> None:
    plan, rng = plan_of(engine, format, tools=TOOLS, reasoning_effort="none"), random.Random(3)
    entry = "after" if any(entry.name == "after" for entry in plan.entries) else "fresh"
    for text, num_calls, said in _texts(format):
        ids = engine.tokenize(plan.format.tool_calls.gap_without_text + text)
        is_legal = any(accepts(plan, engine, [*ids, end], entry) for end in plan.end_ids())
        assert is_legal == (allowed or not said), text
        if is_legal:
            message = read(plan, engine, ids, entry, ended=True)
            assert ([call.parsed for call in message.tool_calls], message.unfinished) == ([{}] * num_calls, None), text
            assert (message.content or "").split() == said.split(), text
            for _ in range(3):
                assert read(plan, engine, ids, entry, sorted(rng.sample(range(len(ids)), 4)), ended=True) == message


@pytest.mark.parametrize("name", template_names())
def test_C7_families(name: str) -> None:
    own = shared_inference(name).format
    assert own.tool_calls.text_after == (name in HABIT)
    assert with_text_after_calls(own, None) is own
    for allowed in (True, False):
        format = allowing(own, allowed)
        assert (format is None) == (allowed and name in IMPOSSIBLE)
        if format is not None:
            _check(format, engine_for(format), allowed)


@pytest.mark.parametrize("walks", [FEW, pytest.param(MANY // 5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", template_names())
def test_C7_random_models_with_text_after_calls(name: str, walks: int) -> None:
    format = allowing(shared_inference(name).format)
    if format is not None:
        rows = AFTER if walks == FEW else TABLE
        assert [wrong for row in rows for wrong in troubles(format, row, walks, walks)][:3] == []


@pytest.mark.parametrize("allowed", [True, False])
def test_C7_markers_that_are_plain_text(engine: Engine, plain_engine: Engine, allowed: bool) -> None:
    format = with_text_after_calls(FORMAT, allowed)
    for chosen in (engine, plain_engine):
        _check(format, chosen, allowed)
    once = plan_of(plain_engine, format, tools=TOOLS, parallel_tool_calls=False)
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert accepts(once, plain_engine, f"{call} Done.{END}", "after") == allowed
    assert not accepts(once, plain_engine, f"{call} Done. {call}{END}", "after")


@pytest.mark.parametrize("walks", [FEW, pytest.param(MANY // 5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FORMS)
def test_C7_made_up_formats(name: str, walks: int) -> None:
    format = allowing(Format("made up", tool_calls=FORMS[name], ends=Ends((END,))))
    if format is not None:
        rows = AFTER if walks == FEW else TABLE
        assert [wrong for row in rows for wrong in troubles(format, row, walks, walks)][:3] == []


def test_C7_the_option_of_a_guide() -> None:
    import guided
    from tests.conftest import make_tiny_guide

    plain = make_tiny_guide()
    for asked, expected in ((None, False), (True, True), (False, False)):
        guide = guided.Guide(plain.model, plain.tokenizer, text_after_calls=asked)
        assert guide.format.tool_calls.text_after == expected
        assert guide.with_tokens(guide.tokens.add_end("<|endoftext|>")).format.tool_calls.text_after == expected
    habit = replace(plain.format, tool_calls=replace(plain.format.tool_calls, text_after=True))
    assert guided.Guide(plain.model, plain.tokenizer, format=habit).format.tool_calls.text_after
    wrong: Any = "yes"
    with pytest.raises(ModelError, match="text_after_calls"):
        guided.Guide(plain.model, plain.tokenizer, text_after_calls=wrong)
