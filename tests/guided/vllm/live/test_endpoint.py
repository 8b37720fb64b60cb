"""Settings and errors of the endpoint are those of vLLM's own, which is the judge; no model runs."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vllm in an environment of its own (`make test-vllm`)")

from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm import exceptions
from vllm.config import ModelConfig
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.serve.exception_handling.register import init_exception_handler
from vllm.entrypoints.serve.utils.api_utils import get_max_tokens

from guided.embedded import model_folder
from guided.vllm.endpoint import GuidedChat
from guided.vllm.model import sampling_defaults

ASKED = {"messages": [{"role": "user", "content": "Hi"}], "model": "m"}
CONTEXT = 2048


def config_of(**flags: Any) -> Any:
    return ModelConfig(model=str(model_folder()), max_model_len=CONTEXT, dtype="float32", **flags)


@pytest.fixture(scope="module")
def endpoint() -> GuidedChat:
    made, scheduler = GuidedChat(), SimpleNamespace(max_num_seqs=16)
    config = SimpleNamespace(model_config=config_of(), scheduler_config=scheduler)
    args = SimpleNamespace(served_model_name=["m"], model="m", chat_template=None)
    asyncio.run(made.init_state(SimpleNamespace(vllm_config=config), None, args))
    return made


OVERRIDES: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.7},
    {"temperature": 0.0},
    {"max_new_tokens": 7},
    {"top_k": 9, "top_p": 0.5, "min_p": 0.1, "repetition_penalty": 1.3},
    {"do_sample": False, "presence_penalty": 0.5, "frequency_penalty": 0.25},
)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": None, "max_tokens": 30},
    {"temperature": 0.2, "max_tokens": 3, "top_k": 4},
    {"max_tokens": CONTEXT, "presence_penalty": 0.0},
)


@pytest.mark.parametrize("source", ["auto", "vllm"])
@pytest.mark.parametrize("override", OVERRIDES)
def test_settings_are_those_of_vllm(endpoint: GuidedChat, source: str, override: dict[str, Any]) -> None:
    config = config_of(generation_config=source, override_generation_config=override)
    endpoint._defaults, endpoint._most_tokens = sampling_defaults(config)
    defaults = config.get_diff_sampling_param()
    for settings in SETTINGS:
        found = endpoint._asked(json.dumps({**ASKED, **settings}).encode())
        judge = ChatCompletionRequest(**ASKED, **settings)
        most = get_max_tokens(
            CONTEXT, judge.max_tokens, len(found.prompt.token_ids), defaults, override.get("max_new_tokens")
        )
        wanted = judge.to_sampling_params(most, defaults)
        names = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
                 "frequency_penalty")  # fmt: skip
        for name in names:
            assert getattr(found.params, name) == getattr(wanted, name), (name, settings)


@pytest.mark.parametrize(
    ("name", "status"),
    [("VLLMNotFoundError", 404), ("VLLMUnprocessableEntityError", 422), ("VLLMValidationError", 400)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_vllm_keep_their_status(endpoint: GuidedChat, name: str, status: int, stream: bool) -> None:
    async def refusing(*_: Any) -> Any:
        raise getattr(exceptions, name)("it is not there")
        yield

    app = FastAPI()
    app.state.args = SimpleNamespace(log_error_stack=False)
    init_exception_handler(app)
    endpoint.attach_router(app)
    endpoint._client.generate = refusing
    with TestClient(app) as client:
        response = client.post("/v1/chat/completions", json={**ASKED, "stream": stream})
    assert response.status_code == status
    assert response.json()["error"]["message"] == "it is not there"
