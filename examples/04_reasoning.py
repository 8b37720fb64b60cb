"""Reasoning effort.  You will see how many tokens each level lets the model think, whatever it wants."""

import guided

guide = guided.demo()
for effort in ("none", "minimal"):
    message = guide.chat(
        "Is 17 a prime number?",
        reasoning_effort=effort,
        response_format=guided.Choice(["yes", "no"]),
        temperature=0,
        max_tokens=120,
    )
    print(f"{effort}: thought for {message.usage.reasoning_tokens} tokens, answered {message.parsed}")
