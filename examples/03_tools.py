"""A Python function as a tool.  You will see the call, its result, and the answer that follows it."""

import datetime
from typing import Annotated, Literal

import guided


def get_weather(
    city: Annotated[str, "name of the city"], day: datetime.date, unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, object]:
    """Weather in a city on a day."""
    return {"city": city, "weekday": f"{day:%A}", "temperature": 18, "unit": unit}


guide = guided.demo()
run = guide.run(
    "What is the weather in Oslo on 2024-05-17?",
    tools=[get_weather],
    tool_choice="required",
    max_turns=1,
    temperature=0,
    max_tokens=60,
)
for result in run.results:
    print(f"{result.call.name}({result.call.arguments}) -> {result.value or result.error}")
print(run.message.content)
