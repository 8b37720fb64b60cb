"""Stops on the very token.  You will see the text before the stop, which stop it was, and no forward after it."""

import guided

guide = guided.demo()
chats = ["Tell me about cats.", "Tell me about dogs.", "Count from 1 to 9."]
plans = [
    guided.Stops(("animals", "social")),  # a row without a plan: its logits stay untouched
    guide.plan(stop=guided.Stops(regex=r"[.!?]\s", include=True)),  # the first sentence
    guide.plan(stop="\n4"),
]
messages = guide.generate(chats, plans, sampling=guided.Sampling(temperature=0), max_tokens=60)
for message in messages:
    print(
        f"{message.content!r}\n    {message.finish_reason}, {message.stop_reason!r}, {message.usage.completion_tokens}"
    )
