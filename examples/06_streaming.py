"""Events while the answer is written.  You will see reasoning, then the tool call's name, then its arguments."""

import guided


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


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
