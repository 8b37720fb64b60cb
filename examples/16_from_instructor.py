"""A program for instructor, written for guided.  You will see a validated model, then partial objects."""

from pydantic import BaseModel, Field, field_validator

import guided


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=150)

    @field_validator("name")
    @classmethod
    def whole(cls, name: str) -> str:
        if not name.isalpha():
            raise ValueError("a name has letters only")
        return name


guide = guided.demo()  # client = instructor.from_provider(...)

# client.chat.completions.create(response_model=Person, messages=messages, max_retries=2)
message = guide.chat(
    [{"role": "user", "content": "Alice is 31."}], response_format=Person, retries=2, temperature=0, max_tokens=40
)
print(repr(message.parsed), message.notes)

# client.chat.completions.create_partial(response_model=Person, ...)
with guide.stream("Bob is 47.", response_format=Person, temperature=0, max_tokens=40) as stream:
    for _ in stream:
        print(repr(stream.partial))
