"""A JSON value in front of a literal that begins like more of a number."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest

from grammars.plan.plan import Plan
from grammars.text_grammars.structural_tag import convert
from grammars.values.constraints import StructuralTag
from grammars.values.format import Format
from guided.engine.engine import Engine
from special_tokens.errors import GrammarError
from tests.cases import seeds
from tests.judges.plans import END, accepts, plan_of, texts_written
from tests.made_up.structural_tags import FREE, const, json_of, of, regex, tag

ENDS = ["END", "eur", ".", "0", "1e5", "9.", "e+", "</n>", "E0E", " 0", "-1", ["END", "0"], [".5", "</n>"]]
SCHEMAS: list[Any] = [
    {"type": "number"},
    {"type": "integer"},
    {},
    {"enum": [1, 12, "1"]},
    {"anyOf": [{"const": 1}, {"type": "number", "minimum": 10}, {"type": "null"}]},
    {"type": "number", "multipleOf": 0.5},
    {"type": ["integer", "string"]},
    {"type": "array", "items": {"type": "number"}},
    {"$ref": "#/$defs/a",
     "$defs": {"a": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}}},
]  # fmt: skip
VALUES = [0, 1, 12, 120, 10.5, 12.25, -3, 0.5, 1200, "1", "", "e0", None, True, [], [1, 2.5], [0], [[3]], {"a": 1}]


def _tag(schema: Any, end: Any) -> StructuralTag:
    return StructuralTag({"type": "structural_tag", "format": tag("<n>", json_of(schema), end)})


def _is_written(text: str, schema: Any, ends: list[str]) -> bool:
    """Whether some end leaves a valid JSON value between the tags."""
    for end in ends:
        if text.startswith("<n>") and text.endswith(end):
            try:
                value = json.loads(text[3 : len(text) - len(end)])
            except ValueError:
                continue
            if jsonschema.Draft202012Validator(schema).is_valid(value):
                return True
    return False


def _plan_unless_lossy(engine: Engine, spec: StructuralTag, texts: Iterable[str] | None) -> Plan | None:
    """Return the plan, or None if it is refused and really would lose some of the texts, if they are known."""
    try:
        return plan_of(engine, Format("plain"), response_format=spec)
    except GrammarError as error:
        assert "cannot always follow" in str(error)
    if texts is None:
        return None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "lost_texts", lambda *_: ())
        plan = plan_of(engine, Format("plain"), response_format=spec)
    assert not all(accepts(plan, engine, text + END) for text in texts), spec
    return None


@pytest.mark.parametrize("end", ENDS, ids=str)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_a_number_before_an_end_is_written_as_json_or_refused(byte_engine: Engine, schema: Any, end: Any) -> None:
    ends = [end] if isinstance(end, str) else end
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    texts = [f"<n>{json.dumps(value)}{one}" for value in filter(is_valid, VALUES) for one in ends]
    plan = _plan_unless_lossy(byte_engine, _tag(schema, end), texts)
    if plan is None:
        return
    for value in VALUES:
        for one in ends:
            text = f"<n>{json.dumps(value)}{one}"
            assert accepts(plan, byte_engine, text + END) == _is_written(text, schema, ends), text
            assert not accepts(plan, byte_engine, text[: -len(one)] + END) or _is_written(
                text[: -len(one)], schema, ends
            )


#: Regexes and choices, and a text of each.
FOLLOWING: dict[str | tuple[str, ...], str] = {
    ("E5",): "E5", "0x[a-f]": "0xa", "e(ur)?": "eur", "[.;]": ".", "[a-z]+": "eur", "€": "€", "(?:<n>)+": "<n>",
    ("END", "<n>"): "END", ("<n>", "pieces"): "<n>", ("0",): "0",
}  # fmt: skip


@pytest.mark.parametrize("schema", [*SCHEMAS, {"type": "string"}, {"type": "object"}, {"enum": ["1", None]}], ids=str)
@pytest.mark.parametrize("following", FOLLOWING, ids=str)
def test_a_number_before_a_regex_or_a_choice_is_writable_or_refused(
    byte_engine: Engine, schema: Any, following: str | tuple[str, ...]
) -> None:
    """The masks led into numbers after which nothing could be written."""
    then = regex(following) if isinstance(following, str) else of("or", *map(const, following))
    spec = {"type": "structural_tag", "format": of("sequence", json_of(schema), then, const(";"))}
    judge = jsonschema.Draft202012Validator(schema)
    written = {f"{json.dumps(value)}{FOLLOWING[following]};": judge.is_valid(value) for value in VALUES}
    right = [text for text, is_valid in written.items() if is_valid]
    plan = _plan_unless_lossy(byte_engine, StructuralTag(spec), right)
    for text, is_valid in written.items() if plan is not None else ():
        assert accepts(plan, byte_engine, text + END) == is_valid


NUMBER = json_of({"type": "number"})
TAGS = {"type": "triggered_tags", "triggers": ["<t"], "tags": [{**_tag({}, "</t>").spec["format"], "begin": "<t>"}]}


@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ([of("sequence", NUMBER), const("END")], "elements[1]"),
        ([NUMBER, of("sequence", const("END"))], "elements[1].elements[0]"),
        ([NUMBER, of("optional", const(";")), const("END")], "elements[1].content"),
        ([NUMBER, of("optional", const("E")), const(";")], "elements[1].content"),
        ([of("or", const("x"), NUMBER), of("star", const("E"))], "elements[1].content"),
        ([of("or", const("x"), NUMBER), of("star", const("0"))], None),
        ([of("sequence", NUMBER, of("optional", const(";"))), const("END")], "elements[0].elements[1].content"),
        ([NUMBER, FREE], "elements[1]"),
        ([NUMBER, TAGS], "elements[0]"),  # the number's: text between tags has no place of its own
        ([of("plus", NUMBER), const(";")], "elements[0].content"),
        ([tag("n=", of("or", NUMBER, const("x")), "end")], "elements[0].end"),
        ([const("a"), {"type": "dispatch", "rules": [["@x", const("")], ["@n", NUMBER]]}], "elements[1].rules[1][1]"),
        ([NUMBER, of("optional", const(";")), const("<END")], None),
        ([of("or", const("x"), NUMBER), of("or", const(","), of("sequence", const("!"), const("0")))], None),
        ([of("plus", of("sequence", NUMBER, const(","))), const("END")], None),
        ([NUMBER, {**TAGS, "at_least_one": True}], None),
        ([of("optional", NUMBER), {"type": "json_schema", "json_schema": {"type": "object"}}], None),
    ],
    ids=str,
)
def test_a_number_is_refused_only_where_it_could_go_on(
    byte_engine: Engine, parts: list[Any], place: str | None
) -> None:
    spec = StructuralTag({"format": of("sequence", *parts)})
    if place is None:
        plan_of(byte_engine, Format("plain"), response_format=spec)
        return
    with pytest.raises(GrammarError, match=re.escape(f"format.{place}: ") + ".* cannot always follow a JSON value"):
        plan_of(byte_engine, Format("plain"), response_format=spec)


INTEGER = json_of({"type": "integer"})
SMALL = json_of({"type": "integer", "minimum": 0, "maximum": 10})
FEW = json_of({"enum": [1, 123]})
STEPS = json_of({"type": "integer", "multipleOf": 5})
LISTED = of("sequence", INTEGER, of("optional", const(",")))


def _integers(*more: Any) -> dict[str, Any]:
    return of("sequence", INTEGER, *more)


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (of("sequence", const("Score: "), INTEGER, FREE),
         ["Score: 7", "Score: 007", "Score: -12.5e3", "Score: 7. And", "Score: 12END", f"Score: {'12' * 50}"]),
        (_integers(TAGS), ["5", "07e5", "5 7<t>1</t>x", "5<t>{}</t>"]),
        ({"type": "dispatch", "rules": [["@num ", INTEGER]]}, ["@num 7", "a@num 12.5 e@num 007@num -1.", "5"]),
        (_integers(of("optional", of("sequence", const("."), regex("[0-9]+")))), ["12", "12.5", "-1.05"]),
        (of("repeat", LISTED, min=1, max=-1), ["1", "12,3", "12-3", "007,5,", "1,-2-3"]),
        (of("star", LISTED), ["", "0012,3"]),
        (of("plus", INTEGER), ["12", "12-3", "007"]),
        (_integers(const(".")), ["12.", "0.", "-3."]),
        (_integers(const("euro")), ["12euro", "0euro"]),
        (_integers(regex("[a-z]+")), ["12euro", "0e"]),
        (_integers(regex("[^0-9]+")), ["12.", "0e", "1{"]),
        (_integers(regex(".*")), ["12", "0012", "12e5"]),
        (of("sequence", SMALL, FREE), ["1", "10", "100", "15", "01", "10.5"]),
        (tag("n=", INTEGER, "end"), ["n=5end", "n=-12end"]),
        (_integers({**FREE, "max_chars": 200, "excludes": ["7bad7"]}), ["5", "007", "12.e", "57bad"]),
        (of("repeat", INTEGER, min=0, max=0), [""]),
        (_integers({"type": "grammar", "grammar": 'root ::= " EUR" | "e"'}), ["12 EUR", "7e"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_text_that_takes_the_digits_without_loss_may_follow_a_number(
    byte_engine: Engine, spec: Any, texts: list[str]
) -> None:
    plan = plan_of(byte_engine, Format("plain"), response_format=StructuralTag({"format": spec}))
    for text in texts:
        assert accepts(plan, byte_engine, text + END), text


@pytest.mark.parametrize(
    ("spec", "lost"),
    [
        (of("sequence", NUMBER, FREE), "7. And"),
        (of("sequence", NUMBER, const("eV")), "12eV"),
        (_integers(regex("[0-9]+")), "12"),
        (_integers(regex("[0-9][a-z]")), "12x"),
        (_integers(of("or", regex("[^x]*"), of("sequence", const("5"), json_of({})))), '15"x"'),
        (_integers(INTEGER), "12"),
        (of("sequence", SMALL, const("0")), "10"),
        (of("sequence", FEW, FREE), "12"),
        (of("sequence", STEPS, FREE), "57"),
        (_integers({**TAGS, "triggers": ["5x"], "tags": [{**TAGS["tags"][0], "begin": "5x"}]}), '15x"5x"</t>'),
        (of("repeat", LISTED, min=2, max=-1), "12"),
        (of("repeat", LISTED, min=2, max=3), "12"),
        (of("sequence", of("or", INTEGER, NUMBER), const(".")), "1."),
    ],
    ids=str,
)
def test_a_text_that_cannot_do_without_the_digits_is_refused_after_a_number(
    byte_engine: Engine, spec: Any, lost: str
) -> None:
    assert _plan_unless_lossy(byte_engine, StructuralTag({"format": spec}), [lost]) is None


#: Schemas of numbers and regexes, each with the regex of Python that tells their texts.
NUMBERS: list[tuple[Any, str]] = [
    (INTEGER, "-?(0|[1-9][0-9]*)"), (SMALL, "[0-9]|10"), (FEW, "1|123"),
    (NUMBER, r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"),
]  # fmt: skip
TIMES = {"optional": "?", "star": "*", "plus": "+"}
REGEXES = [r"\.", "e", "0", "1", "23", "[0-9]*", "[0-9]+", "[^2]*", "[e-]+", "(?s:.*)", "[02]{0,2}", "-?", "[2e]*-"]


def _random_tail(rng: random.Random, depth: int) -> tuple[Any, str]:
    kind = rng.choice(["regex", "sequence", "or", *TIMES]) if depth else "regex"
    if kind == "regex":
        pattern = rng.choice(REGEXES)
        return regex(pattern), pattern
    parts = [_random_tail(rng, depth - 1) for _ in range(1 if kind in TIMES else 2)]
    joined = ("|" if kind == "or" else "").join(f"(?:{pattern})" for _, pattern in parts)
    return of(kind, *(spec for spec, _ in parts)), f"(?:{joined}){TIMES.get(kind, '')}"


@pytest.mark.parametrize("seed", seeds(300, default=30))
def test_a_number_and_a_regular_text_are_written_as_a_regex_of_python_tells(byte_engine: Engine, seed: int) -> None:
    """Every text of up to four characters; a refusal is not judged, as longer ones may be lost."""
    rng = random.Random(seed)
    (spec, number), (tail, pattern) = rng.choice(NUMBERS), _random_tail(rng, 2)
    plan = _plan_unless_lossy(byte_engine, StructuralTag({"format": of("sequence", spec, tail)}), None)
    if plan is not None:
        texts = ("".join(chars) for size in range(5) for chars in itertools.product("012.e-", repeat=size))
        matched = {text for text in texts if re.fullmatch(f"(?:{number}){pattern}", text)}
        assert texts_written(plan, byte_engine, "012.e-", longest=4) == matched
