"""Over HTTP, many at once, a request is answered as `guide.complete` answers it alone, whatever the engine does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.guided.serve.test_same_answers import joined
from tests.guided.vllm.live.cases import LANDED, REQUESTS
from tests.guided.vllm.live.conftest import MODEL, LiveVllm

#: The engine's ways of running: flags, and the counter that shows that it ran so.
ENGINES: dict[str, tuple[tuple[str, ...], str]] = {
    "as it is": ((), ""),
    "preempted, in chunks of 64": (
        ("--num-gpu-blocks-override=16", "--block-size=32", "--max-model-len=448", "--max-num-batched-tokens=64"),
        "vllm:num_preemptions_total",
    ),
    "with n-gram drafts": (
        ("--speculative-config", '{"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4}'),
        "vllm:spec_decode_num_accepted_tokens_total",
    ),
}


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """The part of an answer that must be equal: no ids, times and cached tokens."""
    usage, details = answer["usage"], answer["usage"]["completion_tokens_details"]
    choices = [{key: value for key, value in choice.items() if key != "logprobs"} for choice in answer["choices"]]
    for choice in choices:
        for call in choice["message"].get("tool_calls", ()):
            del call["id"]
    counts = [usage["prompt_tokens"], usage["completion_tokens"], details["reasoning_tokens"]]
    return {"choices": choices, "usage": counts, "guided": answer.get("guided")}


@pytest.fixture(scope="module")
def expected(demo_guide: Any) -> dict[str, dict[str, Any]]:
    return {name: plain(demo_guide.complete(body)) for name, body in REQUESTS.items()}


def ask(live: LiveVllm, body: dict[str, Any]) -> dict[str, Any]:
    if not body.get("stream"):
        response = live.post(body)
        assert response.status_code == 200, response.text
        return dict(response.json())
    with live.client() as client, client.stream("POST", "/v1/chat/completions", json={"model": MODEL, **body}) as lines:
        return joined([line for line in lines.iter_lines() if line])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ENGINES)
def test_forty_mixed_requests(
    serve: Callable[..., LiveVllm], expected: dict[str, dict[str, Any]], name: str, stream: bool
) -> None:
    flags, counter = ENGINES[name]
    live = serve(*flags)
    # vLLM takes no logit_bias together with drafts
    asked = {key: body for key, body in REQUESTS.items() if "drafts" not in name or "logit_bias" not in body}
    more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda body: ask(live, {**body, **more}), asked.values()))
    found = {key: plain(answer) for key, answer in zip(asked, answers, strict=True)}
    different = {key for key in found if found[key] != expected[key]}
    assert not {key: (found[key], expected[key]) for key in different - LANDED}
    for key in LANDED:  # the budget is kept
        (choice,) = found[key]["choices"]
        assert choice["finish_reason"] == "stop"
        assert found[key]["usage"][1] <= REQUESTS[key]["max_tokens"]
    assert not counter or live.metric(counter) > 0
