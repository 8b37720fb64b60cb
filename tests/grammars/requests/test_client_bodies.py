"""Bodies that real clients put on the wire, recorded from them; each asks for the same person.

``client_bodies.jsonl`` has the client with its version, the call, and the body as it arrived at a recording server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from guided.inspect.check import check_request
from tests.judges.plans import END, FORMAT, accepts

BODIES = [
    json.loads(line)
    for line in Path(__file__).with_name("client_bodies.jsonl").read_text(encoding="utf-8").splitlines()
]
ALICE = '{"name": "Alice", "age": 31, "mood": "good", "home": {"street": "Rue É", "zip": null}}'
WRONG = [ALICE.replace("31", "151"), ALICE.replace("good", "fine"), ALICE.replace('"zip": null', '"zip": 5'), "Alice"]


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def plan_for(body: Any, engine: Engine) -> Plan:
    return check_request(body, tokens=engine.tokens, format=FORMAT, engine=engine).plan


def names_of(entry: Any) -> str:
    return f"{entry['client'].split()[0]}, {entry['call']}"


@pytest.mark.parametrize("entry", BODIES, ids=names_of)
def test_K2_what_clients_send_is_planned_and_kept(engine: Engine, entry: Any):
    body = entry["body"]
    plan = plan_for(body, engine)
    entry_name = "fresh" if plan.reasoning.applied and plan.reasoning.effort else "after"
    lead = "<think>\nHm.\n</think>\n\n" if entry_name == "fresh" else ""

    def writes(text: str) -> bool:
        return accepts(plan, engine, lead + text + END, entry_name)

    tools = body.get("tools", ())
    asked = body.get("response_format") or body.get("text", {}).get("format") or {}
    if asked.get("type") == "json_schema":
        assert writes(ALICE)
        assert not any(map(writes, WRONG))
    elif asked:
        assert writes('{"any": 1}')
        assert not writes("Alice")
    elif "structured_outputs" in body:
        assert writes("a")
        assert not writes("c")
    for tool in tools:
        spec = tool.get("custom") or tool.get("function") or tool
        name, properties = spec["name"], spec.get("parameters", {}).get("properties", {})
        if "home" in properties:
            assert writes(call(name, ALICE))
            assert not any(writes(call(name, wrong)) for wrong in WRONG)
        elif "city" in properties:
            assert writes(call(name, '{"city": "東京", "days": 2}'))
            assert not writes(call(name, '{"city": 5}'))
        elif tool["type"] == "custom":
            assert writes(call(name, '{"input": "abc"}'))
            assert not writes(call(name, '{"input": "ABC"}'))
        else:
            assert writes(call(name, '{"a": "b"}'))
            assert not writes(call(name, "{}"))
        must_call = body.get("tool_choice") not in (None, "auto")
        assert writes("Alice") is not must_call
        assert (plan.tool_choice in ("required", "named")) is must_call


def test_bodies_of_every_client_and_api_are_there():
    assert {entry["client"].split()[0] for entry in BODIES} == {
        "openai",
        "pydantic-ai-slim",
        "langchain-openai",
        "instructor",
    }
    assert sum("input" in entry["body"] for entry in BODIES) >= 2  # the Responses API
    assert len(BODIES) >= 27
