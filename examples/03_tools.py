"""A Python function as a tool.  You will see the call, its result, and the turn that follows it."""

import json
from typing import Annotated, Literal

import guided


def get_weather(
    city: Annotated[str, "name of the city"], unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, object]:
    """Current weather in a city."""
    return {"city": city, "temperature": 18, "unit": unit}


guide = guided.demo()
chat = [{"role": "user", "content": "What is the weather in Oslo?"}]
message = guide.chat(
    chat, tools=[get_weather], tool_choice="required", parallel_tool_calls=False, temperature=0, max_tokens=60
)
call = message.tool_calls[0]
result = get_weather(**call.parsed)
print(f"{call.name}({call.arguments}) -> {result}")

chat += [message.to_chat(), {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}]
print(guide.chat(chat, temperature=0, max_tokens=40).content)
