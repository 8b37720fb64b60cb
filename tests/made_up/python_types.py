"""Python types as response formats, with instances that JSON can hold, and types with a rule of their own."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import json
import pathlib
import re
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar, Union

import pydantic
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

D, Dec = dt.date, decimal.Decimal
T = TypeVar("T")


class Paint(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Coordinates(pydantic.BaseModel):
    lat: Annotated[float, Field(ge=-90, le=90)]
    name: str | None = None


class Aliased(pydantic.BaseModel):
    when: D = Field(alias="the day")
    size: int = Field(validation_alias=pydantic.AliasChoices("n", "m"), serialization_alias="n")
    model_config = pydantic.ConfigDict(populate_by_name=True)


class Area(pydantic.BaseModel):
    w: int
    h: int

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.w * self.h


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    breed: Paint


class Box(pydantic.BaseModel, Generic[T]):
    item: T
    more: list[T] = []


class Open(pydantic.BaseModel):
    a: int
    model_config = pydantic.ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int] = Field(init=False)


class Closed(pydantic.BaseModel):
    a: int
    model_config = pydantic.ConfigDict(extra="forbid")


class IdList(pydantic.RootModel[list[uuid.UUID]]):
    pass


class Branch(pydantic.BaseModel):
    value: int
    children: list[Branch] = []


@dataclasses.dataclass
class PlanePoint:
    x: int
    y: int = 0


@dataclasses.dataclass
class TimeSpan:
    start: dt.datetime
    end: dt.datetime | None


class Labelled(TypedDict):
    id: int
    note: NotRequired[str]


class WordAndNumber(NamedTuple):
    key: str
    value: int


class Clash(pydantic.BaseModel):
    a: int = Field(alias="x")
    b: int = Field(alias="x")


class Endless(pydantic.BaseModel):
    more: Endless


class Base64Model(pydantic.BaseModel):
    data: bytes
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


ORDER = ["id", "note", *Paint, True, False]


def in_order(found: dict[Any, Any]) -> dict[Any, Any]:
    """The members in the order of the schema, in which the masks write them."""
    return dict(sorted(found.items(), key=lambda item: ORDER.index(item[0])))


words = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=12)
ints = st.integers(-(10**15), 10**15)
naive = st.datetimes()
aware = st.datetimes(timezones=st.builds(dt.timezone, st.integers(-1439, 1439).map(lambda m: dt.timedelta(minutes=m))))
floats = st.floats(-1e12, 1e12).filter(lambda x: str(x) != "-0.0" and (x == 0 or abs(x) > 1e-9))
money = st.decimals(-999, 999, places=2)
plain = st.decimals(-(10**12), 10**12, places=6)
cats = st.builds(Cat, kind=st.just("cat"), lives=st.integers(0, 9))
dogs = st.builds(Dog, kind=st.just("dog"), breed=st.sampled_from(Paint))
days = st.timedeltas(dt.timedelta(-90_000_000), dt.timedelta(90_000_000))
mails = st.tuples(*[st.text("abcdefgh", min_size=1, max_size=8)] * 2)
nets6 = st.lists(st.integers(1, 0xFFFF), min_size=1, max_size=7).map(
    lambda groups: ipaddress.IPv6Network(f"{':'.join(f'{group:x}' for group in groups)}::/{16 * len(groups)}")
)
nets4 = st.integers(0, 32).flatmap(
    lambda n: st.integers(0, 2**n - 1).map(lambda i: ipaddress.IPv4Network((i << (32 - n), n)))
)
past = st.datetimes(max_value=dt.datetime(2020, 1, 1))

#: Types, and instances that JSON can hold.
TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (int, ints),
    "float": (float, floats),
    "bool": (bool, st.booleans()),
    "str": (str, words),
    "None": (type(None), st.none()),
    "int between": (Annotated[int, Field(ge=-5, lt=1000)], st.integers(-5, 999)),
    "int multiple": (Annotated[int, Field(multiple_of=5)], st.integers(-200, 200).map(lambda i: 5 * i)),
    "str sizes": (Annotated[str, Field(min_length=1, max_length=4)], words.filter(lambda s: 1 <= len(s) <= 4)),
    "str pattern": (Annotated[str, Field(pattern="^[A-Z]{2}[0-9]+$")], st.from_regex(r"\A[A-Z]{2}[0-9]+\Z")),
    "str stripped": (
        Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)],
        words.map(str.strip).filter(bool),
    ),
    "Decimal": (Dec, plain),
    "Decimal places": (Annotated[Dec, Field(max_digits=5, decimal_places=2)], money),
    "Decimal digits": (Annotated[Dec, Field(max_digits=6)], st.decimals(-9999, 9999, places=2)),
    "Decimal positive": (Annotated[Dec, Field(gt=0, decimal_places=2)], st.decimals("0.01", 10**6, places=2)),
    "Decimal between": (Annotated[Dec, Field(ge=Dec("-1.5"), le=Dec("2.75"))], st.decimals(-1, 2, places=4)),
    "Decimal multiple": (Annotated[Dec, Field(multiple_of=Dec("0.05"))], ints.map(lambda i: i % 10**9 * Dec("0.05"))),
    "UUID": (uuid.UUID, st.uuids()),
    **{f"UUID{n}": (getattr(pydantic, f"UUID{n}"), st.uuids(version=n)) for n in (1, 3, 4, 5)},
    "date": (D, st.dates()),
    "date between": (
        Annotated[D, Field(gt=D(1999, 12, 31), le=D(2024, 2, 29))],
        st.dates(D(2000, 1, 1), D(2024, 2, 29)),
    ),
    "PastDate": (pydantic.PastDate, st.dates(max_value=D(2020, 1, 1))),
    "FutureDate": (pydantic.FutureDate, st.dates(min_value=D(2200, 1, 1))),
    "PastDatetime": (pydantic.PastDatetime, past),
    "datetime": (dt.datetime, naive | aware),
    "NaiveDatetime": (pydantic.NaiveDatetime, naive),
    "AwareDatetime": (pydantic.AwareDatetime, aware),
    "time": (dt.time, st.times()),
    "timedelta": (dt.timedelta, days),
    "bytes": (bytes, words.map(str.encode)),
    "bytes as Base64": (Base64Model, st.builds(Base64Model, data=st.binary())),
    "Base64Bytes": (pydantic.Base64Bytes, st.binary(max_size=20)),
    "Base64Str": (pydantic.Base64Str, st.text(st.characters(max_codepoint=127), max_size=20)),
    "Base64UrlStr": (pydantic.Base64UrlStr, st.text(st.characters(max_codepoint=127), max_size=20)),
    "Json": (pydantic.Json, st.lists(ints | st.booleans() | st.none(), max_size=4)),
    "Path": (pathlib.Path, words.map(pathlib.Path)),
    "IPv4Address": (ipaddress.IPv4Address, st.ip_addresses(v=4)),
    "IPv6Address": (ipaddress.IPv6Address, st.ip_addresses(v=6)),
    "IPvAnyAddress": (pydantic.IPvAnyAddress, st.ip_addresses()),
    "IPv4Network": (ipaddress.IPv4Network, nets4),
    "IPv6Network": (ipaddress.IPv6Network, nets6),
    "IPv4Interface": (ipaddress.IPv4Interface, st.builds(ipaddress.IPv4Interface, st.ip_addresses(v=4))),
    "HttpUrl": (pydantic.HttpUrl, mails.map(lambda m: pydantic.HttpUrl(f"https://{m[0]}.{m[1]}/{m[0]}?q={m[1]}"))),
    "re.Pattern": (re.Pattern, st.sampled_from(["a+", "^[a-z]{2,3}$", r"(\d|x)*"]).map(re.compile)),
    "Enum": (Paint, st.sampled_from(Paint)),
    "IntEnum": (Level, st.sampled_from(Level)),
    "Literal": (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    "list": (list[int], st.lists(ints, max_size=4)),
    "list sizes": (
        Annotated[list[bool], Field(min_length=1, max_length=3)],
        st.lists(st.booleans(), min_size=1, max_size=3),
    ),
    "tuple": (tuple[int, str], st.tuples(ints, words)),
    "tuple of any length": (tuple[bool, ...], st.lists(st.booleans(), max_size=3).map(tuple)),
    "set": (set[int], st.sets(ints, max_size=4)),
    "frozenset": (frozenset[Paint], st.frozensets(st.sampled_from(Paint))),
    "deque": (collections.deque[int], st.lists(ints, max_size=4).map(collections.deque)),
    "dict": (dict[str, int], st.dictionaries(words, ints, max_size=3)),
    "dict of ints": (dict[int, int], st.dictionaries(ints, ints, max_size=3)),
    "dict of bounded ints": (
        dict[Annotated[int, Field(ge=0, le=120)], bool],
        st.dictionaries(st.integers(0, 120), st.booleans(), max_size=3),
    ),
    "dict of dates": (dict[D, str], st.dictionaries(st.dates(), words, max_size=3)),
    "dict of enums": (dict[Paint, int], st.fixed_dictionaries({}, optional=dict.fromkeys(Paint, ints)).map(in_order)),
    "dict of UUIDs": (dict[uuid.UUID, int], st.dictionaries(st.uuids(), ints, max_size=2)),
    "dict of bools": (
        dict[bool, int],
        st.fixed_dictionaries({}, optional=dict.fromkeys((True, False), ints)).map(in_order),
    ),
    "dict of floats": (dict[float, int], st.dictionaries(ints.map(lambda i: i % 10**6 / 100), ints, max_size=2)),
    "Counter": (collections.Counter[str], st.dictionaries(words, ints, max_size=3).map(collections.Counter)),
    "union": (int | D | None, ints | st.dates() | st.none()),
    "model": (
        Coordinates,
        st.builds(Coordinates, lat=st.integers(-900, 900).map(lambda i: i / 10), name=st.none() | words),
    ),
    "aliases": (Aliased, st.builds(Aliased, when=st.dates(), size=ints)),
    "computed field": (Area, st.builds(Area, w=ints, h=ints)),
    "discriminated union": (Annotated[Cat | Dog, Field(discriminator="kind")], cats | dogs),
    "union of models": (Cat | Dog, cats | dogs),
    "generic": (Box[D], st.builds(Box[D], item=st.dates(), more=st.lists(st.dates(), max_size=2))),
    "RootModel": (IdList, st.builds(IdList, st.lists(st.uuids(), max_size=2))),
    "extra allowed": (
        Open,
        st.dictionaries(words.filter(lambda s: s != "a"), ints, max_size=2).map(
            lambda d: Open.model_validate({"a": 1, **d})
        ),
    ),
    "extra forbidden": (Closed, st.builds(Closed, a=ints)),
    "recursive": (
        Branch,
        st.recursive(
            st.builds(Branch, value=ints),
            lambda t: st.builds(Branch, value=ints, children=st.lists(t, max_size=2)),
            max_leaves=4,
        ),
    ),
    "dataclass": (PlanePoint, st.builds(PlanePoint, x=ints, y=ints)),
    "dataclass of times": (TimeSpan, st.builds(TimeSpan, start=naive, end=st.none() | naive)),
    "TypedDict": (Labelled, st.fixed_dictionaries({"id": ints}, optional={"note": words}).map(in_order)),
    "NamedTuple": (WordAndNumber, st.builds(WordAndNumber, words, ints)),
    "list of models": (
        list[Coordinates],
        st.lists(st.builds(Coordinates, lat=st.integers(-90, 90).map(float), name=words), max_size=2),
    ),
    "SecretStr": (pydantic.SecretStr, words.map(pydantic.SecretStr)),
}


#: Types with a rule of their own next to those above.
RULES: dict[str, Any] = {
    "Decimal digits and places alike": Annotated[Dec, Field(max_digits=2, decimal_places=2)],
    "Decimal under a limit": Annotated[Dec, Field(lt=Dec("0.3"))],
    "Decimal whole": Annotated[Dec, Field(decimal_places=0, ge=0)],
    "Decimal step and places": Annotated[Dec, Field(multiple_of=Dec("0.25"), decimal_places=3)],
    "float open": Annotated[float, Field(gt=0, lt=1)],
    "float step": Annotated[float, Field(multiple_of=0.5)],
    "str lowered": Annotated[
        str, pydantic.StringConstraints(strip_whitespace=True, to_lower=True, pattern="^[a-z ]+$")
    ],
    "bytes sizes": Annotated[bytes, Field(min_length=2, max_length=5)],
    "UUID7": getattr(pydantic, "UUID7", pydantic.UUID4),
    "IPvAnyNetwork": pydantic.IPvAnyNetwork,
    "IPvAnyInterface": pydantic.IPvAnyInterface,
    "IPv6Interface": ipaddress.IPv6Interface,
    "AnyUrl": pydantic.AnyUrl,
    "FileUrl": pydantic.FileUrl,
    "PostgresDsn": pydantic.PostgresDsn,
    "WebsocketUrl": pydantic.WebsocketUrl,
    "ByteSize": pydantic.ByteSize,
    "set sizes": Annotated[set[int], Field(min_length=2, max_length=3)],
    "dict sizes": Annotated[dict[int, bool], Field(min_length=1, max_length=2)],
    "dict of literals": dict[Literal["a", "b"], D],
    "dict of Decimals": dict[Dec, bool],
    "dict of timedeltas": dict[dt.timedelta, bool],
    "dict of unions": dict[int | D, bool],
    "Counter of ints": collections.Counter[int],
    "defaultdict": collections.defaultdict[D, int],
    "union with constraints": Union[Annotated[int, Field(ge=3)], pydantic.NaiveDatetime],  # noqa: UP007
}


def written(adapter: TypeAdapter[Any], value: Any) -> str:
    """The JSON text of an instance as masks spell it."""
    plain = adapter.dump_python(value, mode="json", by_alias=True, round_trip=True)
    if isinstance(value, pydantic.SecretStr):
        plain = value.get_secret_value()
    return json.dumps(plain, ensure_ascii=False)
