"""Models and their caches in a server: rows that cannot join run in turns, and what is kept is not computed again."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import guided
from tests.guided.serve.conftest import serving
from tests.guided.serve.test_same_answers import bodies, check

CHAT = "/v1/chat/completions"


def guide_of(kind: str, tiny_guide: Any) -> Any:
    """A guide of a model whose requests cannot join one loop."""
    from transformers import MambaConfig, MambaForCausalLM

    tokenizer, model = tiny_guide.tokenizer, copy.deepcopy(tiny_guide.model)
    if kind == "a config of single steps":
        model.generation_config.no_repeat_ngram_size = 5
        return guided.Guide(model, tokenizer)
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "state_size": 4, "num_hidden_layers": 2, "initializer_range": 0.5}
    mamba = MambaForCausalLM(MambaConfig(vocab_size=len(tokenizer), **sizes)).eval()
    mamba.generation_config = model.generation_config
    return guided.Guide(mamba, tokenizer)


@pytest.mark.parametrize("kind", ["a recurrent model", "a config of single steps"])
def test_requests_that_cannot_join_run_in_turns(kind: str, tiny_guide: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="guided.serve")
    guide = guide_of(kind, tiny_guide)
    with serving(guide, names=("tiny",)) as live:
        check(live, guide, bodies(4))
        assert "requests run in turns: " in caplog.text


@pytest.mark.parametrize("piece", [None, 16])
def test_a_turn_computes_what_is_new_and_usage_says_so(tiny_guide: Any, piece: int | None) -> None:
    alone = guided.Guide(tiny_guide.model, tiny_guide.tokenizer)
    chat: list[dict[str, Any]] = []
    with serving(guided.Guide(tiny_guide.model, tiny_guide.tokenizer), piece=piece) as live:
        for turn in range(4):
            chat.append({"role": "user", "content": f"Number {turn}, and a few words more. " * 3})
            body = {"messages": chat, "max_tokens": 8, "temperature": 0}
            answer, wanted = live.post(CHAT, body).json(), alone.complete(body)
            assert answer["usage"] == wanted["usage"]
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert cached > 0.4 * answer["usage"]["prompt_tokens"] or turn == 0
            chat.append(answer["choices"][0]["message"])


def test_equal_prompts_that_arrive_together_are_computed_once(tiny_guide: Any) -> None:
    body = {"messages": [{"role": "user", "content": "All the same words. " * 20}], "max_tokens": 4, "temperature": 0}
    with serving(guided.Guide(tiny_guide.model, tiny_guide.tokenizer)) as live, ThreadPoolExecutor(4) as threads:
        usages = [answer.json()["usage"] for answer in threads.map(live.post, [CHAT] * 4, [body] * 4)]
    new = sorted(one["prompt_tokens"] - one["prompt_tokens_details"]["cached_tokens"] for one in usages)
    assert new[-1] == usages[0]["prompt_tokens"]
    assert new[-2] <= 2
