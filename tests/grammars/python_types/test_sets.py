"""Sets: items that Python can never hash are refused; all others are built, or a row says that they may not be."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel, TypeAdapter

from grammars.compose.compose import Parts, compose
from grammars.python_types.adapter import read_value
from grammars.values.format import Format
from special_tokens.errors import SchemaError
from tests.judges.schema_masks import Compiled, Judge, walked
from tests.made_up.python_types import Cat, Labelled, Paint, PlanePoint


class Still(BaseModel, frozen=True):
    a: int | None
    b: Paint


class OwnHash(BaseModel, frozen=True):
    xs: list[int]

    def __hash__(self) -> int:
        return len(self.xs)


class Kin(BaseModel):
    members: list[Kin] = []


class Chain(BaseModel, frozen=True):
    last: Chain | None = None


UNBUILDABLE: dict[str, Any] = {
    "lists": set[list[int]],
    "models": list[frozenset[Cat]],
    "data classes": set[PlanePoint],
    "typed dicts": dict[str, set[Labelled]],
    "deques": set[deque[int]],
    "model of itself": set[Kin],
}
BUILDABLE: dict[str, Any] = {
    "texts": set[str],
    "frozensets": set[frozenset[int]],
    "tuples": set[tuple[int, str]],
    "null": frozenset[int | None],
}
PERHAPS: dict[str, Any] = {
    "bare": set,
    "anything": frozenset[Any],
    "anything in tuples": set[tuple[Any, int]],
    "lists in tuples": set[tuple[list[int], int]],
    "union": set[int | dict[str, int]],
    "Json": set[pydantic.Json],
    "frozen models": set[Still],
    "frozen model of itself": set[Chain],
    "own hash": set[OwnHash],
    "Hashable": set[Hashable],
}


@pytest.mark.parametrize("name", list(UNBUILDABLE))
def test_a_set_that_python_cannot_build_is_refused(judge: Judge, name: str) -> None:
    with pytest.raises(SchemaError, match="its items cannot be hashed"):
        compose(Parts(response_format=UNBUILDABLE[name]), tokens=judge.tokens, format=Format("bench"))


@pytest.mark.parametrize("name", list(BUILDABLE))
def test_every_answer_of_another_set_is_built(judge: Judge, name: str) -> None:
    adapter, read = TypeAdapter(BUILDABLE[name]), 0
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
def test_a_set_that_python_may_not_build_is_a_row_and_a_refusal_names_the_item(judge: Judge, name: str) -> None:
    plan = compose(Parts(response_format=PERHAPS[name]), tokens=judge.tokens, format=Format("bench"))
    assert any("hash" in row.reason.lower() for row in plan.schema_report.relaxed), plan.schema_report
    if name in ("bare", "anything"):
        with pytest.raises(pydantic.ValidationError, match="hashable"):
            read_value(PERHAPS[name], "[[1]]")
