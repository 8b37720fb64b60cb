"""A program for outlines, written for guided.  You will see objects, a choice and a regex, outlines in comments."""

from typing import Literal

from pydantic import BaseModel, Field

import guided


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int


guide = (
    guided.demo()
)  # model = outlines.from_transformers(hf_model, hf_tokenizer): guided.Guide(hf_model, hf_tokenizer)

person = guide.chat("Alice is 31.", response_format=Person, temperature=0).parsed
print(repr(person))  # Person.model_validate_json(model(prompt, Person))

print(
    guide.chat("Is the sky blue?", response_format=Literal["yes", "no"], temperature=0).parsed
)  # model(prompt, Literal[...])

code = guided.Regex(r"[A-Z]{2}-\d{3}")
print(guide.chat("A code.", response_format=code, temperature=0).parsed)  # model(prompt, outlines.types.Regex(...))

for message in guide.generate(["Bob is 4.", "Eve is 90."], response_format=Person, temperature=0):
    print(repr(message.parsed))  # model.batch(prompts, Person)
