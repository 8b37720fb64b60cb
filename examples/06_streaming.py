"""Events while the answer is written.  You will see reasoning, a tool call, then an object, field by field."""

from pydantic import BaseModel

import guided


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Person(BaseModel):
    name: str
    age: int


guide = guided.demo()
stream = guide.stream(
    "What is 12 plus 30?",
    tools=[add],
    tool_choice="required",
    parallel_tool_calls=False,
    reasoning_effort="minimal",
    temperature=0,
    max_tokens=160,
)
kind = None
for event in stream:
    if type(event) is not kind:
        kind = type(event)
        print(f"\n[{kind.__name__}]", end=" ")
    print(getattr(event, "text", getattr(event, "name", "")), end="", flush=True)
print(f"\n{stream.message.finish_reason}: {stream.message.tool_calls[0].parsed}")

with guide.stream("Alice is 31 years old.", response_format=Person, temperature=0, max_tokens=40) as stream:
    for _ in stream:
        print(repr(stream.partial))
