"""Bad input is refused with the place, on our endpoint and where a plan comes in by vLLM's others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import pytest

import guided
from guided.vllm.sealed import seal
from tests.guided.vllm.live.conftest import LiveVllm

USER = [{"role": "user", "content": "Yes or no?"}]
CHOICE = {"structured_outputs": {"choice": ["yes", "no"]}}


@pytest.fixture(scope="module")
def plan(demo_guide: Any) -> Any:
    return demo_guide.plan(response_format=guided.Choice(("yes", "no")))


def complete(live: LiveVllm, grammar: str, **more: Any) -> httpx2.Response:
    """Ask vLLM's own Completions, under a plan."""
    body = {"prompt": "Yes or no? ", "max_tokens": 8, "temperature": 0, "structured_outputs": {"grammar": grammar}}
    return live.post({**body, **more}, "/v1/completions")


def text_of(response: httpx2.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["text"])


def test_a_plan_by_the_older_endpoint(live: LiveVllm, plan: Any) -> None:
    ends = sorted(plan.end_ids())
    assert text_of(complete(live, seal(plan), stop_token_ids=ends)) in ("yes", "no")


def test_a_plan_of_another_vocabulary(live: LiveVllm, plan: Any) -> None:
    response = complete(live, seal(replace(plan, fingerprint="0123456789abcdef")))
    assert response.status_code == 400
    assert "0123456789abcdef" in response.json()["error"]["message"]
    assert plan.fingerprint in response.json()["error"]["message"]


@pytest.mark.parametrize("change", [lambda text: text[:-8] + "AAAAAAAA", lambda text: "guided:" + text[80:]])
def test_a_plan_that_is_not_signed(live: LiveVllm, plan: Any, change: Any) -> None:
    response = complete(live, change(seal(plan)))
    assert response.status_code == 400
    assert "not signed" in response.json()["error"]["message"]


def test_two_constraints(live: LiveVllm, plan: Any) -> None:
    both = {"grammar": seal(plan), "choice": ["yes", "no"]}
    assert complete(live, "", structured_outputs=both).status_code == 400
    response = live.post({"messages": USER, **CHOICE, "response_format": {"type": "json_object"}})
    assert response.status_code == 400


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"use_beam_search": True}, "use_beam_search"),
        ({"allowed_token_ids": [1]}, "allowed_token_ids"),
        ({"min_tokens": 5}, "min_tokens"),
        ({"top_logprobs": 30, "logprobs": True}, "top_logprobs"),
        ({"n": 17}, "n"),
        ({"max_tokens": 3000}, "max_tokens"),
        ({"short_budget": "error", "max_tokens": 1}, "max_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"stop": [""]}, "stop"),
        ({"return_hidden_states": True}, "return_hidden_states"),
    ],
)
def test_what_the_endpoint_refuses(live: LiveVllm, more: dict[str, Any], place: str) -> None:
    response = live.post({"messages": USER, **CHOICE, **more})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"].startswith(place)
    streamed = live.post({"messages": USER, **CHOICE, **more, "stream": True})
    assert streamed.status_code == 400


def test_a_model_that_is_not_served(live: LiveVllm) -> None:
    response = live.post({"messages": USER, "model": "other"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def test_a_row_that_fails_ends_alone(live: LiveVllm, plan: Any) -> None:
    """No token is legal and allowed: the row ends with an error of its own, its neighbours and the engine go on."""

    def failing(_: int) -> httpx2.Response:
        return complete(live, seal(plan), allowed_token_ids=[260])

    def sound(_: int) -> httpx2.Response:
        return live.post({"messages": USER, "temperature": 0, **CHOICE})

    with ThreadPoolExecutor(8) as threads:
        failed, answers = list(threads.map(failing, range(3))), list(threads.map(sound, range(5)))
    for response in failed:
        assert response.status_code == 500, response.text
    answers.append(sound(0))  # the engine lives
    assert {response.json()["choices"][0]["message"]["content"] for response in answers} <= {"yes", "no"}


def test_structured_requests_of_vllm_beside_ours(live: LiveVllm) -> None:
    def theirs(_: int) -> str:
        body = {"prompt": "Red or blue? ", "max_tokens": 8, "structured_outputs": {"choice": ["red", "blue"]}}
        return text_of(live.post(body, "/v1/completions"))

    def ours(_: int) -> str:
        response = live.post({"messages": USER, "temperature": 0, **CHOICE})
        return str(response.json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(8) as threads:
        found = [*(threads.submit(theirs, i) for i in range(4)), *(threads.submit(ours, i) for i in range(4))]
    assert {one.result() for one in found[:4]} <= {"red", "blue"}
    assert {one.result() for one in found[4:]} <= {"yes", "no"}
