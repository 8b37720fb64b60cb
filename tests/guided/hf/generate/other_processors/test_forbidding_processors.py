"""Built-in processors that would forbid the only legal token: the grammar wins, never an accident."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from grammars.values.constraints import Choice
from guided.hf.masks.apply import RowMask, apply_masks
from guided.hf.model import conflicts
from special_tokens.errors import ModelError
from tests.cases import since_transformers
from tests.judges.generation import CHATS, FORMATS, GuidedCall, check_all, check_answer, generate, with_spy

MODE = (
    "min_new_tokens, suppress_tokens, bad words, forced ids, n-grams, penalties, biases",
    "right",
    "where they leave no legal token the grammar wins; the log names fields of a hub config once",
)


def letters(guide: Any, text: str) -> list[int]:
    return [guide.engine.tokenize(c)[0] for c in text]


def end_of(guide: Any) -> int:
    (end,) = guide.tokens.end_ids
    return int(end)


def everything(guide: Any) -> list[int]:
    return list(range(guide.engine.vocab_size))


#: Name -> the options that it stands for, given a guide.
FLAGS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "min_new_tokens": lambda guide: {"min_new_tokens": 35},
    "min_length": lambda guide: {"min_length": 200},
    "suppress_tokens": lambda guide: {"suppress_tokens": [*letters(guide, '{"okn:tsy'), end_of(guide)]},
    "suppress everything": lambda guide: {"suppress_tokens": everything(guide)},
    "begin_suppress_tokens": lambda guide: {"begin_suppress_tokens": letters(guide, "{ynpabc")},
    "bad_words_ids": lambda guide: {
        "bad_words_ids": [[i] for i in letters(guide, '{"ynpabc')] + [letters(guide, "ok")]
    },
    "no_repeat_ngram_size": lambda guide: {"no_repeat_ngram_size": 1},
    "repetition_penalty": lambda guide: {"repetition_penalty": 50.0},
    "forced_bos_token_id": lambda guide: {"forced_bos_token_id": 3},
    "forced_eos_token_id": lambda guide: {"forced_eos_token_id": end_of(guide)},
    "sequence_bias": lambda guide: {"sequence_bias": {(i,): float("-inf") for i in letters(guide, '{ynpabc"')}},
    "remove_invalid_values": lambda guide: {"remove_invalid_values": True, "min_new_tokens": 35},
    "invalid values and suppressed": lambda guide: {
        "remove_invalid_values": True, "suppress_tokens": everything(guide)
    },
    "exponential_decay": lambda guide: {"exponential_decay_length_penalty": (1, 3.0), "min_new_tokens": 20},
    "prefix_allowed_tokens_fn": lambda guide: {"prefix_allowed_tokens_fn": lambda batch, ids: [5]},
    "watermark": lambda guide: {"watermarking_config": {"bias": 5.0}},
}  # fmt: skip
CASES = [
    pytest.param(flag, marks=since_transformers("5.19", "it makes NaN of a masked end")) if "decay" in flag else flag
    for flag in FLAGS
]


@pytest.mark.filterwarnings("ignore:Unfeasible length constraints")
@pytest.mark.parametrize("flag", CASES)
@pytest.mark.parametrize("mode", [{"do_sample": True, "top_k": 20}, {"do_sample": False}], ids=str)
def test_G9_the_grammar_wins(tiny_guide: Any, flag: str, mode: dict[str, Any]) -> None:
    names = list(FORMATS)
    call = GuidedCall(tiny_guide, CHATS[:3], names)
    call.kwargs, spy = with_spy(call.kwargs)
    torch.manual_seed(0)
    for size in (4, 40):
        rows, messages = call.run(max_new_tokens=size, **mode, **FLAGS[flag](tiny_guide))
        for name, row, message in zip(names, rows, messages, strict=True):
            check_answer(tiny_guide, name, row, message)
    assert spy.scores


@pytest.mark.filterwarnings("ignore:Unfeasible length constraints")
@pytest.mark.parametrize("flag", CASES)
def test_beams_under_such_flags(tiny_guide: Any, flag: str) -> None:
    result = generate(tiny_guide, CHATS[:1], ["json"], num_beams=3, **FLAGS[flag](tiny_guide))
    check_all(tiny_guide, ["json"], result)


def test_rescued_steps_are_counted_and_others_are_not(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=Choice(["yes"]))
    call = GuidedCall(tiny_guide, CHATS[:1], [plan])
    for options, rescued in (({}, 0), ({"min_new_tokens": 30}, 1), ({"suppress_tokens": letters(tiny_guide, "e")}, 1)):
        _, (message,) = call.run(**options)
        assert (message.content, message.finish_reason) == ("yes", "stop")
        assert message.guidance.rescued == rescued


def test_scores_without_any_legal_token_are_an_error_and_no_accident() -> None:
    words = torch.zeros(4, dtype=torch.int32).numpy()
    words[3] = 1
    with pytest.raises(ModelError, match="within its 64 scores"):
        apply_masks(torch.zeros((1, 64)), [RowMask(0, words)])


@pytest.mark.parametrize("ids", [[5, 6], []], ids=str)
def test_fields_may_be_tensors(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch, ids: list[int]) -> None:
    config = GenerationConfig(eos_token_id=tiny_guide.tokens.end_ids[0], pad_token_id=tiny_guide.context.pad_id)
    config.suppress_tokens = torch.tensor(ids, dtype=torch.long)
    monkeypatch.setattr(tiny_guide.model, "generation_config", config)
    assert ("suppress_tokens" in conflicts.conflicts(config)) == bool(ids)
    assert GuidedCall(tiny_guide, CHATS[:1], ["json"]).kwargs


def test_fields_of_a_hub_config_are_named_once(
    tiny_guide: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (end,) = tiny_guide.tokens.end_ids
    fields: dict[str, Any] = {
        "suppress_tokens": letters(tiny_guide, '{"y'), "min_new_tokens": 30, "no_repeat_ngram_size": 2,
        "forced_eos_token_id": end, "repetition_penalty": 1.3, "do_sample": True,
    }  # fmt: skip
    config = GenerationConfig(eos_token_id=end, pad_token_id=tiny_guide.context.pad_id, **fields)
    monkeypatch.setattr(tiny_guide.model, "generation_config", config)
    monkeypatch.setattr(conflicts, "_warned", set())
    with caplog.at_level(logging.WARNING, logger="guided"):
        for _ in range(2):
            torch.manual_seed(0)
            (tokens, _), (message, _) = GuidedCall(tiny_guide, CHATS[:2], ["json", None]).run(do_sample=True)
            check_answer(tiny_guide, "json", tokens, message)
    (record,) = [r for r in caplog.records if "generation config can forbid" in r.message]
    for name in ("suppress_tokens", "min_new_tokens", "no_repeat_ngram_size", "forced_eos_token_id"):
        assert name in record.message
    assert "repetition_penalty" not in record.message
