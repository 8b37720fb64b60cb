"""A pydantic model as response format.  You will see an instance of it, not text."""

from typing import Literal

from pydantic import BaseModel, Field

import guided


class Review(BaseModel):
    product: str = Field(max_length=30)
    stars: int = Field(ge=1, le=5)
    mood: Literal["angry", "disappointed", "neutral", "happy"]


guide = guided.demo()
message = guide.chat(
    "Review: the X200 coffee machine broke after two days, I am furious. One star.",
    response_format=Review,
    temperature=0,
    max_tokens=80,
)
review = message.parsed
assert isinstance(review, Review)
print(repr(review))
