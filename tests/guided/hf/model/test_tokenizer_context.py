"""From messages to a finished message with a tokenizer and a configuration: no weights, no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grammars.compose.compose import Parts
from guided.hf.model.tokenizer_context import TokenizerContext
from guided.hf.planning import Planner

ROOT = Path(__file__).resolve().parents[4]

#: Every token is drawn from a mask; nothing of torch can be imported.
HOST = """
import json, random, sys


sys.modules["torch"] = None  # as if it were not installed
sys.path.insert(0, ROOT)

from transformers import LlamaConfig

from grammars.requests.chat import read_chat
from guided.bitmask import allowed_ids
from guided.hf.model.tokenizer_context import TokenizerContext
from guided.hf.planning import Planner
from guided.landing.options import budgeting, token_limit
from guided.rows.making import make_row
from guided.rows.reader import AnswerReader
from tests.conftest import CHAT_TEMPLATE
from tests.made_up.tokenizers import MARKERS, live_tokenizer, small_tokenizer

text = small_tokenizer(MARKERS, special=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
tokenizer = live_tokenizer(text, eos_token="<|im_end|>")
tokenizer.chat_template = CHAT_TEMPLATE
config = LlamaConfig(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)

planner = Planner(TokenizerContext.of(tokenizer, config))
for body in json.loads(sys.argv[1]):
    chat = read_chat(body)
    plan = planner.plan_request(chat.request)
    prompt = planner.context.prompt(chat.messages, plan)
    limit = token_limit(plan, None, len(prompt.token_ids), 2048)
    begin, budget = prompt.begin, budgeting(chat.request.landing, chat.request.short_budget)
    row = make_row(plan, planner.context.engine, begin=begin, max_tokens=limit, budget=budget, lands_in_masks=True)
    reader = AnswerReader(plan, planner.context.engine, begin=begin, prompt_tokens=len(prompt.token_ids))
    chance, events = random.Random(0), []
    while not row.is_done and row.num_tokens < limit:
        token = chance.choice(allowed_ids(row.token_mask().words))
        row.extend([token])
        events += reader.feed([token])
    events += reader.finish()
    message = reader.message(report=row.report())
    print(json.dumps({
        "prompt": tokenizer.decode(prompt.token_ids),
        "content": message.content,
        "events": "".join(event.text for event in events if type(event).__name__ == "ContentDelta"),
        "calls": [[call.name, call.parsed] for call in message.tool_calls],
        "finish": message.finish_reason,
        "ok": message.ok,
        "usage": [message.usage.prompt_tokens, message.usage.completion_tokens],
        "sizes": [len(prompt.token_ids), row.num_tokens],
        "masks": message.guidance.masks,
        "torch": any(name.startswith("torch") and module for name, module in sys.modules.items()),
    }))
"""


def answered(*bodies: dict[str, Any]) -> list[dict[str, Any]]:
    asked = [body | {"messages": [{"role": "user", "content": "Who?"}]} for body in bodies]
    command = [sys.executable, "-c", f"ROOT = {str(ROOT)!r}\n{HOST}", json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    for found in answers:
        assert not found["torch"]
        assert found["usage"] == found["sizes"]
        assert found["masks"]
        assert found["events"] == (found["content"] or "")
    return answers


def test_a_schema_is_answered_and_a_tool_called_without_torch_and_weights() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    function = {"name": "get_age", "parameters": {"type": "object", "properties": {"who": {"enum": ["Ann", "Bob"]}},
                                                  "required": ["who"], "additionalProperties": False}}  # fmt: skip
    tools = [{"type": "function", "function": function}]
    found, called = answered(
        {"response_format": form, "max_tokens": 60}, {"tools": tools, "tool_choice": "required", "max_tokens": 90}
    )
    assert set(json.loads(found["content"])) == {"name", "age"}
    assert found["finish"] == "stop"
    assert found["ok"]
    assert '"age"' in found["prompt"]  # in the system message
    assert found["prompt"].endswith("<|im_start|>assistant\n")
    ((name, arguments),) = called["calls"]
    assert name == "get_age"
    assert arguments["who"] in ("Ann", "Bob")
    assert called["finish"] == "tool_calls"


@pytest.mark.parametrize("describe", [True, False])
def test_a_context_of_a_tokenizer_binds_as_that_of_its_model(tiny_guide: Any, describe: bool) -> None:
    """The judge is the guide, which has the weights."""
    from guided.hf.generate.inputs import checked_inputs

    model = tiny_guide.model
    planner = Planner(TokenizerContext.of(tiny_guide.tokenizer, model.config, model.generation_config))
    parts = Parts(response_format={"type": "object"}, max_tokens=9)
    plan = planner.plan(parts)
    assert plan == tiny_guide.planner.plan(parts)
    for chat in ("Hi", [{"role": "system", "content": "Be short."}, {"role": "user", "content": "<|im_end|>"}]):
        for row in (plan, None):
            prompt = planner.context.prompt(chat, row, describe=describe)
            inputs = checked_inputs(tiny_guide.context, [chat], [row], describe=describe)
            assert (tuple(prompt.token_ids), prompt.begin) == (inputs.prompt_ids[0], inputs.begins[0])
