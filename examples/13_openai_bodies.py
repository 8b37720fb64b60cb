"""A body of OpenAI's Chat Completions, answered with its objects.  You will see a completion, then its chunks."""

import json

import guided

guide = guided.demo()
body = {
    "model": "smollm2",
    "messages": [{"role": "user", "content": "Alice is 31."}],
    "response_format": {
        "type": "json_schema",
        "json_schema": {
            "name": "person",
            "schema": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name", "age"],
                "additionalProperties": False,
            },
        },
    },
    "temperature": 0,
    "max_tokens": 40,
}
completion = guide.complete(body)
print(json.dumps(completion["choices"][0]["message"]), completion["usage"]["completion_tokens"], "tokens")
for chunk in guide.complete({**body, "stream": True}):
    print([choice["delta"] for choice in chunk["choices"]])
