"""Functions and pydantic models as tools: their description, and what the arguments of a call become."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import functools
import json
import pickle
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from typing_extensions import Doc, TypedDict

from grammars.plan.wire import decode_plan, encode_plan
from grammars.tools.normalise import normal_tools
from grammars.tools.python_tools import read_docstring
from grammars.values.tool import Tool
from guided.engine.engine import Engine
from special_tokens.errors import SchemaError, ToolError
from tests.judges.plans import plan_of
from tests.made_up.python_types import Clash, Coordinates, Endless, Paint, PlanePoint


class TravelNote(TypedDict):
    text: str
    at: dt.datetime


def plan_trip(
    day: dt.date,
    color: Paint,
    where: Coordinates,
    point: PlanePoint | None = None,
    notes: list[TravelNote] | None = None,
    tags: set[int] = frozenset(),  # type: ignore[assignment]
    price: decimal.Decimal = decimal.Decimal("1.50"),
    *,
    times: Annotated[int, "how often", Field(ge=1)] = 1,
    kind: Literal["a", "b"] = Field("a", alias="the kind"),
) -> dict[str, Any]:
    """Plan it."""
    return dict(locals())


def tool_of(function: Any) -> Tool:
    (tool,) = normal_tools([function])
    return tool


ARGUMENTS = st.fixed_dictionaries(
    {"day": st.dates(), "color": st.sampled_from(Paint), "where": st.builds(Coordinates, lat=st.integers(-90, 90))},
    optional={
        "point": st.builds(PlanePoint, st.integers(), st.integers()) | st.none(),
        "notes": st.lists(st.fixed_dictionaries({"text": st.text(max_size=5), "at": st.datetimes()}), max_size=2),
        "tags": st.sets(st.integers(), max_size=3),
        "price": st.decimals(0, 999, places=2),
        "times": st.integers(1, 9),
        "kind": st.sampled_from(["a", "b"]),
    },
)


@given(arguments=ARGUMENTS)
def test_arguments_become_what_the_function_takes(arguments: dict[str, Any]) -> None:
    """The judge is the function itself, called with the values that the JSON text was made of."""
    tool = tool_of(plan_trip)
    named = {"the kind" if name == "kind" else name: value for name, value in arguments.items()}
    text = pydantic.TypeAdapter(dict[str, Any]).dump_json(named).decode()
    expected = {"kind": "a"} | arguments
    assert tool.python.read(text) == expected
    assert tool.python.run(tool.python.read(text)) == plan_trip(**expected)


class Server:
    """A place with methods."""

    def __init__(self) -> None:
        self.seen: list[dt.date] = []

    def book(self, day: dt.date) -> int:
        """Book a day."""
        self.seen.append(day)
        return len(self.seen)


def test_methods_partials_models_and_dataclasses_run() -> None:
    server = Server()
    text = '{"day": "2024-02-03"}'
    for made, result in (
        (server.book, 1),
        (functools.partial(plan_trip, dt.date(2024, 2, 3)), {"day": dt.date(2024, 2, 3)}),
        (PlanePoint, PlanePoint(3)),
        (Coordinates, Coordinates(lat=3)),
    ):
        tool = tool_of(made)
        texts = {
            "plan_trip": '{"color": "red", "where": {"lat": 1}}',
            "PlanePoint": '{"x": 3}',
            "Coordinates": '{"lat": 3}',
        }
        found = tool.python.run(tool.python.read(texts.get(tool.name, text)))
        assert found == result if not isinstance(found, dict) else found["day"] == result["day"]
    assert server.seen == [dt.date(2024, 2, 3)]


HEAD = """Look it up.

    Twice, if needed:
    now and then.

    It may take long.

"""
GOOGLE = """\
    Args:
        city (str): Where: the
            town.

            Or the village.
        *days: How many (a list).

    Returns:
        dict: not for this
    """
NUMPY = """\
    Parameters
    ----------
    city : str, optional
        Where: the
        town.

        Or the village.
    days
        How many (a list).

    Returns
    -------
    dict
        not for this
    """
SPHINX = """\
    :param str city: Where: the
        town.

        Or the village.
    :param days: How many (a list).
    :type days: list
    :raises KeyError: not for this
    :returns: not for this
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_descriptions_are_whole_in_every_style(doc: str) -> None:
    def look_up(city: str, days: list[int] | None = None) -> None: ...

    look_up.__doc__ = HEAD + doc
    tool = tool_of(look_up)
    assert tool.description == "Look it up.\n\nTwice, if needed: now and then.\n\nIt may take long."
    found = {name: each.get("description") for name, each in tool.parameters["properties"].items()}
    assert found == {"city": "Where: the town.\n\nOr the village.", "days": "How many (a list)."}


Described = Annotated[int, Field(ge=1, description="the e")]


def test_names_that_share_a_text_and_texts_of_annotations() -> None:
    def f(a: int, b: int, c: Annotated[str, "the c"], d: Annotated[str, Doc("the d")], e: Described, f: str) -> None:
        """F.

        Parameters
        ----------
        a, b : int
            Two sides.
        c : str
            Less than the annotation.

        Other Parameters
        ----------------
        f : str
            Last.
        """

    found = {name: each.get("description") for name, each in tool_of(f).parameters["properties"].items()}
    assert found == {"a": "Two sides.", "b": "Two sides.", "c": "the c", "d": "the d", "e": "the e", "f": "Last."}


@given(st.text(alphabet="Args:\n Returns-:param x(int)*,", max_size=80))
def test_any_docstring_is_read(doc: str) -> None:
    found = read_docstring(doc)
    assert isinstance(found.description, str)
    assert all(name.isidentifier() or name.isalnum() for name in found.parameters)


def documented(doc: str) -> Callable[..., None]:
    def f(city: str, size: int = 1) -> None: ...

    f.__doc__ = doc
    return f


@pytest.mark.parametrize(
    ("made", "place", "message"),
    [
        (documented("F.\n\nArgs:\n    citi: Where.\n"), "tools.f.citi", "which is not a parameter.*is it 'city'"),
        (documented("F.\n\n:param int city: Where."), "tools.f.city", "the docstring says int, the signature str"),
        (documented("F.\n\nParameters\n----------\nsize : bool\n    X.\n"), "tools.f.size", "says bool"),
        (lambda x: x, "tools", "the function has no name"),
    ],
)
def test_a_docstring_that_contradicts_the_signature_is_refused(made: Any, place: str, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        normal_tools([made])
    assert caught.value.place == place


def test_what_a_docstring_may_say_all_the_same() -> None:
    """Parameters that a partial gives, keywords that ``**more`` takes, words for types that are not plain."""

    def f(city: str, ratio: float, **more: int) -> None:
        """F.

        Args:
            city (a town): Where.
            ratio (int): Whole or not.
            other: Taken by more.
        """

    assert tool_of(functools.partial(f, "Oslo")).name == "f"


def takes(kind: Any) -> Callable[..., None]:
    def f(x: Any) -> None: ...

    f.__annotations__ = {"x": kind}
    return f


def takes_two(a: Annotated[int, Field(alias="x")], b: Annotated[int, Field(alias="x")]) -> None: ...


@pytest.mark.parametrize(
    ("made", "place"),
    [
        (takes(complex), "tools.f"),
        (takes(Endless), "tools"),
        (Endless, "tools"),
        (Clash, "tools.Clash"),
        (takes(Clash), "tools.f"),
        (takes_two, "tools.takes_two"),
        (pydantic.RootModel[list[int]], "tools[0].parameters.type"),
    ],
)  # fmt: skip
def test_types_that_json_cannot_carry_are_refused_with_their_place(engine: Engine, made: Any, place: str) -> None:
    with pytest.raises((ToolError, SchemaError)) as caught:
        plan_of(engine, tools=[made])
    assert caught.value.place.lstrip("schema/").replace("/", ".").startswith(place.removeprefix("schema")), caught.value


class Checked(pydantic.BaseModel):
    """Checked."""

    a: Annotated[int, pydantic.AfterValidator(abs)]


def checked(inner: Checked) -> None:
    """Take it."""


@pytest.mark.parametrize("made", [Checked, checked])
def test_a_rule_that_masks_cannot_keep_is_a_row_of_the_tool_report(engine: Engine, made: Any) -> None:
    plan = plan_of(engine, tools=[made])
    (row,) = [row for row in plan.tool_report.relaxed if "abs" in row.reason]
    assert row.pointer.startswith(f"/tools/{made.__name__}/parameters")
    with pytest.raises(SchemaError, match="abs"):
        plan_of(engine, tools=[made], schema_policy="strict")
    assert "x-guided-rows" not in json.dumps(plan.tools[0].parameters)


def test_plans_of_functions_are_copied_and_pickled(engine: Engine) -> None:
    """With the functions where pickle can name them, without them where it cannot."""

    def local(a: int) -> int:
        """Local."""
        return a

    plan = plan_of(engine, tools=[checked, local, Checked])
    assert [tool.python is not None for tool in copy.deepcopy(plan).tools] == [True] * 3
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert [tool.python is not None for tool in again.tools] == [True, False, True]


def test_functions_stay_in_their_process(engine: Engine) -> None:
    plan = plan_of(engine, tools=[checked])
    again = decode_plan(encode_plan(plan))
    assert again == plan
    assert (plan.tools[0].python is None, again.tools[0].python is None) == (False, True)
