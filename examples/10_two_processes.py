"""A plan between processes.  You will see one process compose it without any weights, and this one write the answer."""

import subprocess
import sys

import guided

COMPOSE = """
import sys
import guided
from guided.embedded import model_folder
from guided.hf.model.vocabulary import plan_of

response_format = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
parts = guided.Parts(response_format=response_format, reasoning_effort="none", max_tokens=40)
plan = plan_of(model_folder(), parts)  # reads tokenizer and chat template, no weights
sys.stdout.buffer.write(guided.encode_plan(plan))
"""

data = subprocess.run([sys.executable, "-c", COMPOSE], stdout=subprocess.PIPE, check=True).stdout
plan = guided.decode_plan(data)
print(f"{len(data)} bytes: a plan for {plan.response.kind}, of vocabulary {plan.fingerprint}")

guide = guided.demo()
message = guide.chat("Alice is 31 years old.", plan, temperature=0)
print(message.content, message.finish_reason)
