"""The final part of a JSON text that is still being written, in its Python type.

The judge is the whole value, which pydantic reads: all that is there before the end is part of it.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from grammars.python_types.partial import partial_value
from tests.made_up.python_types import TYPES, Aliased, Cat, Coordinates, Dog, PlanePoint, written


def is_part(part: Any, whole: Any) -> bool:
    """Whether ``part`` is ``whole`` without some fields, members at the end of lists, or members of sets."""
    if isinstance(part, pydantic.BaseModel):
        names = part.model_fields_set
        if part != whole:
            assert set(vars(part)) == names, "a default that may still change is not a final value"
        return type(part) is type(whole) and all(is_part(getattr(part, n), getattr(whole, n)) for n in names)
    if isinstance(part, dict) and not isinstance(whole, dict):
        return all(is_part(value, getattr(whole, name)) for name, value in part.items())
    if isinstance(part, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    if isinstance(part, list | tuple):
        return isinstance(whole, type(part)) and all(map(is_part, part, whole)) and len(part) <= len(whole)
    if isinstance(part, set | frozenset):
        return part <= whole
    return bool(part == whole)


@pytest.mark.parametrize("name", list(TYPES))
@given(data=st.data())
@settings(max_examples=max(4, settings().max_examples // 10), deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_there_stays_as_it_is(name: str, data: st.DataObject) -> None:
    python_type, instances = TYPES[name]
    text = written(TypeAdapter(python_type), data.draw(instances))
    whole = TypeAdapter(python_type).validate_json(text)
    for size in sorted({data.draw(st.integers(0, len(text))) for _ in range(12)}):
        found = partial_value(python_type, text[:size])
        assert found is None or is_part(found, whole), (text[:size], found)
        plain = partial_value(None, text[:size])
        assert plain is None or is_part(plain, json.loads(text)), (text[:size], plain)
    found = partial_value(python_type, text)
    assert found == whole or (found is None and text[-1].isdigit()), "a number at the end may go on"


class Form(pydantic.BaseModel):
    who: Coordinates
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]
    at: PlanePoint
    seen: dict[int, Coordinates] = {}


def test_fields_come_one_after_the_other() -> None:
    text = '{"who": {"lat": 1.5, "name": "a"}, "pets": [{"kind": "dog", "breed": "red"}], "at": {"x": 12, "y": 3}, '
    text += '"seen": {"7": {"lat": 2'
    seen = [repr(found) for size in range(len(text) + 1) if (found := partial_value(Form, text[:size])) is not None]
    whole = "who=Coordinates(lat=1.5, name='a')"
    pets = f"{whole}, pets=[Dog(kind='dog', breed=<Paint.RED: 'red'>)]"
    assert list(dict.fromkeys(seen)) == [
        "Form()",
        "Form(who=Coordinates())",
        "Form(who=Coordinates(lat=1.5))",
        "Form(who=Coordinates(lat=1.5, name='a'))",
        f"Form({whole}, pets=[])",
        f"Form({whole}, pets=[Dog(kind='dog')])",
        f"Form({pets})",
        f"Form({pets}, at={{}})",
        f"Form({pets}, at={{'x': 12}})",
        f"Form({pets}, at=PlanePoint(x=12, y=3))",
        f"Form({pets}, at=PlanePoint(x=12, y=3), seen={{}})",
        f"Form({pets}, at=PlanePoint(x=12, y=3), seen={{7: Coordinates()}})",
    ]


class Doubled(pydantic.BaseModel):
    a: int
    b: int

    @pydantic.field_validator("a")
    @classmethod
    def twice(cls, value: int) -> int:
        return 2 * value


class Whole(pydantic.BaseModel):
    a: int
    b: int

    @pydantic.model_validator(mode="after")
    def swapped(self) -> Whole:
        self.a, self.b = self.b, self.a
        return self


@dataclasses.dataclass
class Carrier:
    inner: Whole


@pytest.mark.parametrize(
    ("python_type", "text", "expected"),
    [
        (Doubled, '{"b": 1, "a": 2, ', {"b": 1}),
        (Doubled, '{"b": 1, "a": 2}', {"b": 1, "a": 4}),
        (Carrier, '{"inner": {"a": 1, ', {}),
        (list[Whole], '[{"a": 1, "b": 2}, {"a": 3, ', [Whole(a=1, b=2)]),
        (Annotated[list[int], pydantic.AfterValidator(sorted)], "[3, 1, ", None),
        (list[Annotated[int, pydantic.AfterValidator(abs)]], "[-3, -1, ", [3, 1]),
        (Coordinates | dict[str, int], '{"lat": 1, ', None),
        (Coordinates | list[int] | None, "[1, 2, ", [1, 2]),
        (int, "12", None),
        (Aliased, '{"the day": "2024-02-03", "n": 4, ', {"when": "2024-02-03", "size": 4}),
        (dict[str, Any], '{"a": {"b": [1, {"c": tru', {}),
        (object, '{"a": 1', None),
        (Cat, '{"kind": "dog", "lives": 99, ', {}),
        (list[int], "[" * 5_000, None),
        (set[Any], "[[1], 2, ", None),
        (dict[str, set[Any]], '{"a": [1], "b": [[1], ', {"a": {1}}),
    ],
)
def test_what_may_change_is_left_out(python_type: Any, text: str, expected: Any) -> None:
    found = partial_value(python_type, text)
    if isinstance(found, pydantic.BaseModel):
        assert isinstance(found, python_type)
        found = found.model_dump(mode="json", warnings=False) if found.model_fields_set else {}
    assert found == expected
