"""Sets: a type of which Python can build no set is refused; of every other each answer is built, or a row says not."""

from __future__ import annotations

import dataclasses
import random
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Annotated, Any, NamedTuple

import pydantic
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter
from typing_extensions import TypeAliasType

from grammars.compose.compose import Parts, compose
from grammars.python_types.adapter import read_value
from grammars.values.format import Format
from special_tokens.errors import SchemaError
from tests.judges.schema_laws import byte_judge
from tests.judges.schema_masks import Compiled, walked
from tests.made_up.python_types import Cat, Labelled, Paint, PlanePoint, WordAndNumber


class Still(BaseModel, frozen=True):
    a: int | None
    b: Paint


class Full(BaseModel, frozen=True):
    xs: list[int]


class Typed(BaseModel, frozen=True):
    type: str
    xs: list[int]


class Around(BaseModel, frozen=True):
    inner: Full | None = None


class OwnHash(BaseModel, frozen=True):
    xs: list[int]

    def __hash__(self) -> int:
        return len(self.xs)


class Root(pydantic.RootModel[list[int]]):
    model_config = ConfigDict(frozen=True)


class Kin(BaseModel):
    members: list[Kin] = []


class Chain(BaseModel, frozen=True):
    last: Chain | None = None


class JudgedItem(BaseModel):
    a: int

    @pydantic.model_validator(mode="after")
    def is_even(self) -> JudgedItem:
        return self


class ListAndFlag(NamedTuple):
    xs: list[int]
    b: bool


@dataclasses.dataclass(frozen=True)
class Listed:
    xs: list[int]


@dataclasses.dataclass(frozen=True)
class Noted:
    a: int
    notes: list[int] = dataclasses.field(hash=False)


Nested = TypeAliasType("Nested", "list[Nested] | int")  # type: ignore[misc, valid-type, name-defined]

UNBUILDABLE: dict[str, tuple[Any, str]] = {
    "lists": (set[list[int]], "list"),
    "models": (list[frozenset[Cat]], "Cat"),
    "a field whose name is type": (set[Typed], "list"),
    "data classes": (set[PlanePoint], "PlanePoint"),
    "lists or null": (set[list[int] | None], "list"),
    "union": (set[int | dict[str, int]], "dict"),
    "tuples of lists": (set[tuple[list[int], int]], "list"),
    "tuples of any length": (frozenset[tuple[list[int], ...]], "list"),
    "typed dicts": (dict[str, set[Labelled]], "Labelled"),
    "deques": (set[deque[int]], "deque|list"),
    "sequences": (set[Sequence[int]], "list"),
    "frozen models": (set[Full], "list"),
    "frozen models inside": (set[Around], "list"),
    "frozen roots": (set[Root], "list"),
    "named tuples": (set[ListAndFlag], "list"),
    "frozen data classes": (set[Listed], "list"),
    "model of itself": (set[Kin], "Kin"),
    "model used twice": (tuple[set[Full], Full], "list"),
    "alias of itself": (set[Nested], "list"),
    "model with a validator": (set[JudgedItem], "JudgedItem"),
}
BUILDABLE: dict[str, Any] = {
    "frozen models": set[Still],
    "frozen model of itself": set[Chain],
    "used twice": tuple[set[Still], Still],
    "own hash": set[OwnHash],
    "frozensets": set[frozenset[int]],
    "tuples": set[tuple[int, str]],
    "named tuples": set[WordAndNumber],
    "null": frozenset[int | None],
    "made hashable": set[Annotated[list[int], AfterValidator(tuple)]],
}
PERHAPS: dict[str, Any] = {
    "bare": set,
    "anything": frozenset[Any],
    "anything in tuples": set[tuple[Any, int]],
    "Json": set[pydantic.Json],
    "not all fields": set[Noted],
    "Hashable": set[Hashable],
}


@pytest.mark.parametrize("name", list(UNBUILDABLE))
def test_a_set_that_python_cannot_build_is_refused(name: str) -> None:
    python_type, part = UNBUILDABLE[name]
    with pytest.raises(SchemaError, match=f"a set of ({part}): its items cannot be hashed"):
        compose(Parts(response_format=python_type), tokens=byte_judge(None).tokens, format=Format("bench"))


@pytest.mark.parametrize("name", list(BUILDABLE))
def test_every_answer_of_another_set_is_built(name: str) -> None:
    judge, adapter, read = byte_judge(None), TypeAdapter(BUILDABLE[name]), 0
    plan = compose(Parts(response_format=BUILDABLE[name]), tokens=judge.tokens, format=Format("bench"))
    assert not any("hash" in row.reason for row in plan.schema_report.relaxed)
    found = Compiled(plan, judge.engine, judge.tokenizer)
    for seed in range(400):
        text = walked(found, random.Random(seed).getrandbits(32))
        if text is not None and read < 200:
            adapter.validate_json(text)
            read += 1
    assert read > 100


@pytest.mark.parametrize("name", list(PERHAPS))
def test_a_set_that_python_may_be_unable_to_build_is_a_row_and_a_refusal_names_the_item(name: str) -> None:
    judge = byte_judge(None)
    plan = compose(Parts(response_format=PERHAPS[name]), tokens=judge.tokens, format=Format("bench"))
    assert any("hash" in row.reason.lower() for row in plan.schema_report.relaxed), plan.schema_report
    if name in ("bare", "anything"):
        with pytest.raises(pydantic.ValidationError, match="hashable"):
            read_value(PERHAPS[name], "[[1]]")
