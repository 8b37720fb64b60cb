"""One batch, four different rows, through plain ``model.generate``.  You will see that no row disturbs another."""

import guided

guide = guided.demo()
chats = ["Alice is 31.", "Say hello.", "Pick a colour.", "A date in ISO form:"]
plans = [
    guide.plan(
        response_format={
            "type": "object",
            "properties": {"age": {"type": "integer"}},
            "required": ["age"],
            "additionalProperties": False,
        }
    ),
    None,  # this row is not guided at all
    guide.plan(response_format=guided.Choice(["red", "green", "blue"])),
    guide.plan(response_format=guided.Regex(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]")),
]
batch = guide.batch(chats, plans, temperature=0, max_tokens=24)
output = guide.model.generate(**batch)
for chat, message in zip(chats, batch.messages(output), strict=True):
    print(f"{chat!r}: {message.content!r} ({message.finish_reason})")
