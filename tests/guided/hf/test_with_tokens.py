"""A guide with a registry of the caller's own: its plans, plan cache, plain rows and messages end where that says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import guided
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.state.state import GuidanceState
from special_tokens import SpecialTokens
from special_tokens.errors import TokenizerError
from tests.conftest import make_tiny_guide
from tests.made_up.scripts import read_everywhere, write

MARKERS = ("<|im_start|>", "<|im_end|>", "<|eom|>", "<|endoftext|>")
TEXT = "The sky is blue."


@pytest.fixture(scope="module")
def guide() -> Any:
    return make_tiny_guide(MARKERS)


@pytest.fixture(scope="module")
def more(guide: Any) -> Any:
    """The same guide, for which `<|eom|>` ends a turn as well."""
    return guide.with_tokens(guide.tokens.add_end("<|eom|>"))


def may_end(guide: Any, plan: Any, text: str) -> set[str]:
    """The special tokens that the mask allows after ``text``."""
    state = GuidanceState(plan, guide.engine)
    state.commit(guide.engine.tokenize(text))
    mask = allocate_bitmask(1, guide.engine.vocab_size)
    state.fill_bitmask(mask)
    return {guide.tokens.text(i) for i in allowed_ids(mask[0]) if i in guide.tokens.added}


def test_E1_plans_end_at_the_guides_own_ends_and_those_of_the_other_guide_do_not(guide: Any, more: Any) -> None:
    assert more.model is guide.model
    assert more.tokenizer is guide.tokenizer
    assert more.format == guide.format
    for body in ({}, {"response_format": {"type": "integer"}}):
        ours, theirs = more.plan(**body), guide.plan(**body)  # of equal requests: each from its own cache
        assert may_end(more, ours, "7") == {"<|im_end|>", "<|eom|>"}
        assert may_end(guide, theirs, "7") == {"<|im_end|>"}
        assert more.plan(**body) is ours
        assert guide.plan(**body) is theirs
    assert guided.Guide(guide.model, guide.tokenizer, tokens=more.tokens).plan().ends == more.plan().ends


def test_E1_an_answer_ends_at_the_guides_own_end(guide: Any, more: Any) -> None:
    """Plain, with stops alone and guided; the other guide writes on."""
    script = guide.engine.tokenize(f"{TEXT}<|eom|>and on<|im_end|>")
    size = script.index(guide.tokens.id_of("<|eom|>")) + 1
    for one, content in ((more, TEXT), (guide, f"{TEXT}<|eom|>and on")):
        for row in (None, guided.Stops(["never"])):
            for message in read_everywhere(one, script, row)[:3]:
                assert (message.content, message.finish_reason) == (content, "stop")
                assert message.token_ids == tuple(script[:size] if one is more else script)
        with write(one, "hi", script):
            message = one.chat("hi", one.plan(), temperature=0, max_tokens=size + 2)
        assert (message.finish_reason == "stop") == (one is more)
        assert (message.content == TEXT) == (one is more)


def test_E1_an_end_that_the_caller_adds_wins_over_what_the_family_rules_out() -> None:
    """gpt-oss never ends at `<|end|>`, whatever a config says; a caller who says so means it."""
    markers = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|im_end|>")
    guide = make_tiny_guide(markers)
    more = guide.with_tokens(guide.tokens.add_end("<|end|>"))
    tool = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    for body in ({}, {"tools": [tool], "tool_choice": "required"}):
        end = guide.tokens.id_of("<|end|>")
        assert all(end not in one.ids for one in guide.plan(**body).ends)
        assert all(end in one.ids for one in more.plan(**body).ends)


def test_a_registry_of_another_tokenizer_is_refused(guide: Any) -> None:
    facts = guide.tokens.facts
    for tokens in (SpecialTokens(replace(facts, added=facts.added[1:])), guide.tokens.end_ids):
        with pytest.raises(TokenizerError, match=r"^tokens: .*add_end"):
            guide.with_tokens(tokens)
        with pytest.raises(TokenizerError, match=r"^tokens: "):
            guided.Guide(guide.model, guide.tokenizer, tokens=tokens)
