"""Python types as response formats: what they hold can be written, and what is written they hold.

The judge is pydantic itself: `TypeAdapter` writes the instances and reads the answers.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import fractions
import ipaddress
import json
import pathlib
import re
from collections.abc import Hashable
from typing import Annotated, Any, Literal, NewType

import annotated_types as at
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from typing_extensions import TypeAliasType

from grammars.compose.compose import Parts, compose
from grammars.python_types.adapter import read_value, schema_of_type
from grammars.tools.python_tools import function_tool
from grammars.values.format import Format
from special_tokens.errors import RequestError, SchemaError
from tests.cases import seeds
from tests.judges.schema_masks import Compiled, Judge, walked
from tests.made_up.python_types import RULES, TYPES, Cat, Clash, D, Dog, Endless, Level, Paint, written

_compiled: dict[str, Compiled] = {}


def compiled(judge: Judge, python_type: Any) -> Compiled:
    if (key := repr(python_type)) not in _compiled:
        plan = compose(Parts(response_format=python_type), tokens=judge.tokens, format=Format("bench"))
        _compiled[key] = Compiled(plan, judge.engine, judge.tokenizer)
    return _compiled[key]


@pytest.mark.parametrize("name", list(TYPES))
@given(data=st.data())
@settings(max_examples=max(5, settings().max_examples // 4), deadline=None, suppress_health_check=list(HealthCheck))
def test_every_instance_can_be_written_and_is_read_back_equal(judge: Judge, name: str, data: st.DataObject) -> None:
    python_type, instances = TYPES[name]
    adapter, value = TypeAdapter(python_type), data.draw(instances)
    text = written(adapter, value)
    found = compiled(judge, python_type)
    assert found.accepts(text), (text, found.explain(text))
    assert adapter.validate_json(text) == value


@pytest.mark.parametrize("seed", seeds(10, default=1))
@pytest.mark.parametrize("name", [name for name in [*TYPES, *RULES] if name != "FutureDate"])
def test_nothing_that_the_type_refuses_is_written(judge: Judge, name: str, seed: int) -> None:
    python_type = TYPES[name][0] if name in TYPES else RULES[name]
    found, adapter, read = compiled(judge, python_type), TypeAdapter(python_type), 0
    assert not found.plan.response.report.relaxed
    for i in range(20):
        text = walked(found, 1_000 * seed + i)
        if text is None:
            continue
        read += 1
        adapter.validate_json(text)
    assert read > 2


class Checked(pydantic.BaseModel):
    a: int

    @pydantic.model_validator(mode="after")
    def is_even(self) -> Checked:
        return self


@dataclasses.dataclass
class Judged:
    a: int

    def __post_init__(self) -> None:
        if self.a % 2:
            raise ValueError("odd")


def tag(value: Any) -> str:
    return "cat" if isinstance(value, dict) and "lives" in value else "dog"


class Holder(pydantic.BaseModel):
    inner: list[Checked]


#: Types with a rule that no mask keeps, the place of its row, and what the row says.
REPORTED: dict[str, tuple[Any, str, str]] = {
    "validator": (Annotated[str, pydantic.AfterValidator(str.lower)], "", "lower"),
    "function": (Annotated[int, pydantic.AfterValidator(lambda x: x)], "", "lambda"),
    "predicate": (Annotated[str, at.Predicate(str.isalpha)], "", "predicate"),
    "model validator": (Holder, "/$defs/Checked", "is_even"),
    "post init": (Judged, "", "__post_init__"),
    "file": (pydantic.FilePath, "", "must exist"),
    "future": (pydantic.FutureDate, "", "future"),
    "time bound": (Annotated[dt.datetime, Field(ge=dt.datetime(2020, 1, 1))], "", "ge"),
    "duration bound": (Annotated[dt.timedelta, Field(lt=dt.timedelta(days=1))], "", "lt"),
    "typed Json": (pydantic.Json[list[int]], "", "inside the string"),
    "hashable": (list[Hashable], "/items", "Hashable"),
    "chosen by a function": (
        Annotated[
            Annotated[Cat, pydantic.Tag("cat")] | Annotated[Dog, pydantic.Tag("dog")], pydantic.Discriminator(tag)
        ],
        "",
        "function chooses",
    ),
    "bound of an address": (
        Annotated[ipaddress.IPv4Address, Field(ge=ipaddress.IPv4Address("1.1.1.1"))], "", "greater_than"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REPORTED))
def test_a_rule_that_masks_cannot_keep_is_a_row_of_the_report(judge: Judge, name: str) -> None:
    python_type, place, words_of_row = REPORTED[name]
    plan = compose(Parts(response_format=python_type), tokens=judge.tokens, format=Format("bench"))
    rows = plan.schema_report.relaxed
    assert any(row.pointer == place and words_of_row in row.reason for row in rows), rows
    parts = Parts(response_format=python_type, schema_policy="strict")
    with pytest.raises(SchemaError, match="cannot be enforced"):
        compose(parts, tokens=judge.tokens, format=Format("bench"))
    assert "x-guided-rows" not in json.dumps(plan.response.schema)  # type: ignore[union-attr]


class Inside(pydantic.BaseModel):
    a: int = Field(validation_alias=pydantic.AliasPath("x", 0))


class Days(enum.Enum):
    FIRST = D(2020, 1, 1)


REFUSED: dict[str, tuple[Any, str]] = {
    "complex": (complex, "complex"),
    "complex inside": (list[complex], "complex"),
    "Fraction": (fractions.Fraction, "fractions"),
    "keys that are tuples": (dict[tuple[int, int], int], "a key is a text"),
    "keys of a numeric enum": (dict[Level, int], "a key is a text"),
    "enum of dates": (Days, "enum"),
    "clashing aliases": (Clash, "'x'"),
    "alias of a path": (Inside, "AliasPath"),
    "a class": (type[int], "no JSON schema"),
    "endless": (Endless, "no value satisfies"),
    "member of an enum that is not a text": (Literal[Days.FIRST], "take the enum itself"),
    "member of an enum of texts": (Literal[Paint.RED], "take the enum itself"),
    "what is imported": (pydantic.ImportString, "must not choose"),
    "patterns of bytes": (list[re.Pattern[bytes]], "patterns of bytes"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_type_that_json_cannot_carry_is_refused(judge: Judge, name: str) -> None:
    python_type, message = REFUSED[name]
    with pytest.raises(SchemaError, match=message) as caught:
        compose(Parts(response_format=python_type), tokens=judge.tokens, format=Format("bench"))
    assert caught.value.place or caught.value.pointer == ""


@pytest.mark.parametrize(("given_format", "kind", "right", "wrong"), [
    (["red", "blue"], "choice", "blue", "blu"),
    (("red", "blue"), "choice", "red", "green"),
    (re.compile(r"[a-z]+-[0-9]{2}"), "regex", "ab-12", "AB-12"),
    (re.compile(r"[a-z]+-[0-9]{2}", re.IGNORECASE), "regex", "AB-12", "AB-1"),
])  # fmt: skip
def test_lists_of_texts_and_compiled_patterns_are_formats(
    judge: Judge, given_format: Any, kind: str, right: str, wrong: str
) -> None:
    found = compiled(judge, given_format)
    assert found.plan.response.kind == kind
    assert found.accepts(right)
    assert not found.accepts(wrong)


@pytest.mark.parametrize("given_format", [[], [1, 2], ["a", None], re.compile(b"a")])
def test_other_lists_and_patterns_are_refused(judge: Judge, given_format: Any) -> None:
    with pytest.raises(RequestError):
        compose(Parts(response_format=given_format), tokens=judge.tokens, format=Format("bench"))


def test_titles_that_repeat_a_name_are_left_out() -> None:
    class Titled(pydantic.BaseModel):
        title: str
        size: int = Field(title="The size in cm")
        others: list[Titled] = []

    def buy(title: str, size: int = 3) -> None:
        """Buy it."""

    text = json.dumps([schema_of_type(Titled)[0], function_tool(buy).parameters])
    assert re.findall('"title": "([^"]*)"', text) == ["The size in cm"]
    assert text.count('"title": {') == 2  # the fields of that name


@dataclasses.dataclass
class Counted:
    count: int
    total: int = dataclasses.field(init=False, default=0)
    doubled: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.doubled = 2 * self.count


def test_a_field_that_the_type_sets_itself_is_not_written(judge: Judge) -> None:
    """The type would drop, without a word, what a model wrote there."""
    found = compiled(judge, Counted)
    assert found.accepts('{"count": 3}')
    assert not found.accepts('{"count": 3, "total": 7}')
    assert read_value(Counted, '{"count": 3}') == Counted(3)


@pytest.mark.parametrize("python_type", [pathlib.Path, pydantic.SecretStr, list[pathlib.PurePosixPath]])
def test_pydantics_names_of_any_text_have_no_note(judge: Judge, python_type: Any) -> None:
    plan = compose(Parts(response_format=python_type), tokens=judge.tokens, format=Format("bench"))
    assert not plan.notes


Number = NewType("Number", int)
NestedNumbers = TypeAliasType("NestedNumbers", "list[NestedNumbers] | Number")  # type: ignore[misc, valid-type, name-defined]


@pytest.mark.parametrize(("named", "text", "value"), [(Number, "12", 12), (NestedNumbers, "[1, [2]]", [1, [2]])])
def test_a_type_with_a_name_is_a_type(judge: Judge, named: Any, text: str, value: Any) -> None:
    assert compiled(judge, named).accepts(text)
    assert read_value(named, text) == value


def test_a_type_of_an_absent_package_is_refused(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise ImportError("email-validator is not installed")

    monkeypatch.setattr("pydantic.networks.import_email_validator", absent)
    with pytest.raises(SchemaError, match=r"email-validator is not installed \(install the package\)"):
        compose(Parts(response_format=pydantic.EmailStr), tokens=judge.tokens, format=Format("bench"))
