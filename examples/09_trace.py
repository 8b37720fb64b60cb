"""A picture of a generation.  You will see how often guidance decided, and a page for your browser is written."""

import tempfile
from pathlib import Path

import guided

guide = guided.demo()
message = guide.chat(
    "Paris has 2.1 million inhabitants.",
    response_format={
        "type": "object",
        "properties": {"city": {"type": "string"}, "millions": {"type": "number"}},
        "required": ["city", "millions"],
        "additionalProperties": False,
    },
    temperature=0,
    max_tokens=80,
    trace=True,
)
tokens = message.trace.tokens
print(message.content)
print(f"{len(tokens)} tokens, {sum(t.forced for t in tokens)} forced, {sum(t.overridden for t in tokens)} overridden")
for token in tokens:
    if token.overridden:
        print(f"at {token.text!r} the model wanted {token.top[0][0]!r} ({token.top[0][1]:.0%})")
page = message.trace.write(Path(tempfile.gettempdir()) / "guided-trace.html")
print(f"open {page}")
