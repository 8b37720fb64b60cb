"""A JSON schema as a dict.  You will see an object that obeys it, and what the schema cost."""

import guided

guide = guided.demo()
schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
message = guide.chat("Alice is 31 years old and lives in Lima.", response_format=schema, temperature=0, max_tokens=60)
print(message.parsed)
print(f"{message.guidance.overridden} of {message.guidance.masks} tokens were not the model's first choice")
