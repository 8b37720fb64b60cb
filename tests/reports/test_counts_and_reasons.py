"""Kind: what costs is counted, and what is off says why, once, in words that do not look like a crash.

Source: checks of this project's own founding documents; no thread of their own.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import guided
from tests.conftest import make_tiny_guide

SETTINGS: dict[str, tuple[str, Any, str]] = {
    "static cache": ("cache_implementation", "static", "the cache is a StaticCache"),
    "no cache": ("use_cache", False, "use_cache is false"),
    "a processor": ("no_repeat_ngram_size", 3, "the generation config adds NoRepeatNGramLogitsProcessor"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_no_kept_rows_say_why_once(case: str, caplog: Any) -> None:
    name, value, why = SETTINGS[case]
    guide = make_tiny_guide()
    setattr(guide.model.generation_config, name, value)
    with caplog.at_level(logging.WARNING, "guided"):
        for _ in range(2):
            guide.chat("why?", temperature=0, max_tokens=4)
    assert guide.stats().kept.off == f"decoded step by step: {why}"
    said = [record.getMessage() for record in caplog.records if why in record.getMessage()]
    assert said == [f"no rows are kept for later turns, decoded step by step: {why}"]


def test_a_model_without_a_kv_cache_is_not_said_to_crash() -> None:
    import transformers

    from guided.hf.cache.self_test import abilities_of

    config = transformers.MambaConfig(vocab_size=96, hidden_size=16, state_size=4, num_hidden_layers=1)
    notes = abilities_of(transformers.MambaForCausalLM(config).eval()).notes
    assert not [note for note in notes for word in ("Error", "raised", "()") if word in note], notes


def test_all_attempts_are_counted(tiny_guide: Any) -> None:
    class Never(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def _refuse(cls, value: int) -> int:
            raise ValueError("never")

    def ask(retries: int) -> Any:
        return tiny_guide.chat("n?", response_format=Never, temperature=0, max_tokens=60, retries=retries, reuse=False)

    one, two = ask(0).usage, ask(2).usage
    assert two.completion_tokens > one.completion_tokens
    assert two.prompt_tokens > 2 * one.prompt_tokens
    assert two.forwards > one.forwards


def test_the_forward_of_a_state_that_is_computed_afterwards_is_counted(tiny_guide: Any) -> None:
    plain = tiny_guide.chat("why?", temperature=0, max_tokens=5, reuse=False)
    settings = guided.hf.HiddenStates(strategy="prefill")
    told = tiny_guide.chat("why?", temperature=0, max_tokens=5, reuse=False, return_last_hidden_state=settings)
    assert told.last_hidden_state is not None
    assert told.token_ids == plain.token_ids
    assert told.usage.forwards == plain.usage.forwards + 1
