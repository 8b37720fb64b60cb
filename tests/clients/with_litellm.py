"""litellm: a completion and a stream."""

from __future__ import annotations

import json
import os
from typing import Any

from checks import ADDRESS, run_checks

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched
from litellm import completion

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
BODY: dict[str, Any] = {
    "model": "openai/gpt-4o-mini",
    "messages": [{"role": "user", "content": "Is the sky blue?"}],
    "api_base": ADDRESS,
    "api_key": "any",
    "response_format": FORMAT,
}


def whole() -> None:
    assert json.loads(completion(**BODY).choices[0].message.content)["ok"] in (True, False)


def stream() -> None:
    text = "".join(chunk.choices[0].delta.content or "" for chunk in completion(**BODY, stream=True))
    assert json.loads(text)["ok"] in (True, False)


run_checks("litellm", [whole, stream])
