"""Built-in processors that would forbid the only legal token: the grammar wins, never an accident."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from grammars.values.constraints import Choice
from guided.hf.masks.apply import RESCUE, RowMask, apply_masks
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


def flags(guide: Any) -> dict[str, dict[str, Any]]:
    everything = list(range(guide.engine.vocab_size))
    (end,) = guide.tokens.end_ids
    return {
        "min_new_tokens": {"min_new_tokens": 35},
        "min_length": {"min_length": 200},
        "suppress_tokens": {"suppress_tokens": [*letters(guide, '{"okn:tsy'), end]},
        "suppress everything": {"suppress_tokens": everything},
        "begin_suppress_tokens": {"begin_suppress_tokens": letters(guide, "{ynpabc")},
        "bad_words_ids": {"bad_words_ids": [[i] for i in letters(guide, '{"ynpabc')] + [letters(guide, "ok")]},
        "no_repeat_ngram_size": {"no_repeat_ngram_size": 1},
        "repetition_penalty": {"repetition_penalty": 50.0},
        "forced_bos_token_id": {"forced_bos_token_id": everything[3]},
        "forced_eos_token_id": {"forced_eos_token_id": end},
        "sequence_bias": {"sequence_bias": {(i,): float("-inf") for i in letters(guide, '{ynpabc"')}},
        "remove_invalid_values": {"remove_invalid_values": True, "min_new_tokens": 35},
        "invalid values and suppressed": {"remove_invalid_values": True, "suppress_tokens": everything},
        "exponential_decay": {"exponential_decay_length_penalty": (1, 3.0), "min_new_tokens": 20},
        "prefix_allowed_tokens_fn": {"prefix_allowed_tokens_fn": lambda batch, ids: [everything[5]]},
        "watermark": {"watermarking_config": {"bias": 5.0}},
    }


FLAGS = [
    "min_new_tokens", "min_length", "suppress_tokens", "suppress everything", "begin_suppress_tokens", "bad_words_ids",
    "no_repeat_ngram_size", "repetition_penalty", "forced_bos_token_id", "forced_eos_token_id", "sequence_bias",
    "remove_invalid_values", "invalid values and suppressed", "exponential_decay", "prefix_allowed_tokens_fn",
    "watermark",
]  # fmt: skip
CASES = [
    pytest.param(flag, marks=since_transformers("5.19", "it makes NaN of a masked end")) if "decay" in flag else flag
    for flag in FLAGS
]


def test_the_list_is_complete(tiny_guide: Any) -> None:
    assert list(flags(tiny_guide)) == FLAGS


@pytest.mark.filterwarnings("ignore:Unfeasible length constraints")
@pytest.mark.parametrize("flag", CASES)
@pytest.mark.parametrize("mode", [{"do_sample": True, "top_k": 20}, {"do_sample": False}], ids=str)
def test_G9_the_grammar_wins(tiny_guide: Any, flag: str, mode: dict[str, Any]) -> None:
    names = list(FORMATS)
    call = GuidedCall(tiny_guide, CHATS[:3], names)
    call.kwargs, spy = with_spy(call.kwargs)
    torch.manual_seed(0)
    for size in (4, 40):
        rows, messages = call.run(max_new_tokens=size, **mode, **flags(tiny_guide)[flag])
        for name, row, message in zip(names, rows, messages, strict=True):
            check_answer(tiny_guide, name, row, message)
    assert spy.scores


@pytest.mark.filterwarnings("ignore:Unfeasible length constraints")
@pytest.mark.parametrize("flag", CASES)
def test_beams_under_such_flags(tiny_guide: Any, flag: str) -> None:
    result = generate(tiny_guide, CHATS[:1], ["json"], num_beams=3, **flags(tiny_guide)[flag])
    check_all(tiny_guide, ["json"], result)


def test_rescued_steps_are_counted_and_others_are_not(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=Choice(["yes"]))
    call = GuidedCall(tiny_guide, CHATS[:1], [plan])
    for options, rescued in (({}, 0), ({"min_new_tokens": 30}, 1), ({"suppress_tokens": letters(tiny_guide, "e")}, 1)):
        _, (message,) = call.run(**options)
        assert (message.content, message.finish_reason) == ("yes", "stop")
        assert message.guidance.rescued == rescued


def test_where_only_ends_are_legal_the_plans_first_end_is_written() -> None:
    """Not id 0 and not the lowest id of the set."""
    words = torch.zeros(2, dtype=torch.int32).numpy()
    words[0] = 0b10_0001_0001  # ids 0, 4 and 9
    out = apply_masks(torch.full((1, 64), float("-inf")), [RowMask(0, words, ends=(9, 4, 0))])
    assert int(out[0].argmax()) == 9
    assert (out[0] > float("-inf")).nonzero().flatten().tolist() == [0, 4, 9]
    assert float(out[0, 4]) == RESCUE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nan_and_lowest_numbers_are_no_scores(dtype: torch.dtype) -> None:
    words = torch.zeros(2, dtype=torch.int32).numpy()
    words[0] = 0b1110
    scores = torch.zeros((3, 64), dtype=dtype)
    scores[0, 1:4] = torch.tensor([float("nan"), 2.0, float("nan")])
    scores[1, 1:4] = torch.tensor([float("nan")] * 3)
    scores[2, 1:4] = torch.finfo(dtype).min
    masks = [RowMask(r, words) for r in range(3)]
    out = apply_masks(scores, masks)
    assert out.dtype is dtype
    assert not bool(out.isnan().any())
    assert int(out[0].argmax()) == 2
    assert [mask.rescued for mask in masks] == [False, True, True]
    assert all((row > float("-inf")).nonzero().flatten().tolist() == [1, 2, 3] for row in out[1:])


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
