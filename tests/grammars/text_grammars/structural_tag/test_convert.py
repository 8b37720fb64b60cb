"""K8: structural tags of all three forms: the payload obeys its schema, free text ends, tokens are for the trusted."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars.values.constraints import StructuralTag
from grammars.values.format import Format
from guided.engine.engine import Engine
from special_tokens.errors import RequestError
from tests.judges.plans import END, accepts, plan_of, write_to_the_end
from tests.made_up.schemas import closed
from tests.made_up.structural_tags import FREE, const, json_of, of, regex, tag

PLAIN = Format("plain")
CITY = closed({"city": {"type": "string"}})
INTEGER = {"type": "integer"}
LEGACY = {
    "type": "structural_tag",
    "structures": [
        {"begin": "<function=get_weather>", "schema": CITY, "end": "</function>"},
        {"begin": "<function=get_time>", "schema": INTEGER, "end": "</function>"},
    ],
    "triggers": ["<function="],
}
NEWER = {
    "type": "structural_tag",
    "format": of(
        "triggered_tags",
        *(tag(s["begin"], json_of(s["schema"]), s["end"]) for s in LEGACY["structures"]),
        triggers=["<function="],
    ),
}


@pytest.mark.parametrize("spec", [LEGACY, NEWER, json.dumps(LEGACY)], ids=["legacy", "newer", "as JSON text"])
def test_K8_the_payload_obeys_its_schema(engine: Engine, spec: Any):
    plan = plan_of(engine, PLAIN, response_format=StructuralTag(spec))
    good = '<function=get_weather>{"city": "Köln"}</function>'
    for text in ("just text <b>", good, f"First {good} then <function=get_time>12</function> and {good}.", "<functio"):
        assert accepts(plan, engine, text + END), text
    for text in (
        "<function=",
        "<function=get_wrong>",
        '<function=get_weather>{"city": 1}</function>',
        good[:-1],
        '<function=get_weather>{"town": "x"}</function>',
        "<function=get_time>x</function>",
        f"{good}<function=",
        '<function=get_weather>{"city": "x"} </function>',
    ):
        assert not accepts(plan, engine, text + END), text


@pytest.mark.parametrize(
    ("begin", "end"),
    [("<function=f>", "</function>"), ("<ns:tag a='1'>", "</ns:tag>"), ("[call]", "[/call]"), ("  <x>", "</x>")],
)
def test_K8_the_end_tag_is_told_from_the_start_tag(engine: Engine, begin: str, end: str):
    plan = plan_of(engine, PLAIN, response_format=StructuralTag({"start_tag": begin, "schema": INTEGER}))
    assert accepts(plan, engine, f"{begin}5{end}" + END)
    assert not accepts(plan, engine, f"{begin}x{end}" + END)
    assert not accepts(plan, engine, f"{begin}5" + END)


def test_K8_a_tag_without_a_schema_holds_an_object(engine: Engine):
    plan = plan_of(engine, PLAIN, response_format=StructuralTag({"tag": "data"}))
    assert accepts(plan, engine, '<data>{"a": [1]}</data>' + END)
    assert not accepts(plan, engine, "<data>[1]</data>" + END)


TAGGED = tag("<a>", const("x"), "</a>")
FINAL = tag("<final>", json_of(INTEGER), "</final>")
TRIGGERED = of("triggered_tags", tag("<t>", FREE, "</t>"), triggers=["<t"])
DISPATCH = of("dispatch", ["@n", regex("[0-9]+;")])
F, G = tag("<f>", FREE, "</f>"), tag("[g]", const("1"), "[/g]")
FIRST = {"stop_after_first": True}
#: As XGrammar's own models of these objects write it.
WHOLE = json_of(CITY, style="json", any_order=False, max_whitespace_cnt=None, excludes=[])

FORMATS: list[tuple[Any, list[str], list[str]]] = [
    (const("x\n"), ["x\n"], ["x"]),
    (regex("[a-c]+/?"), ["abc/"], ["d", ""]),
    ({"type": "grammar", "grammar": 'root ::= "a" root | "b"'}, ["aab", "b"], ["a"]),
    (json_of(CITY), ['{"city": ""}'], ["{}"]),
    (WHOLE, ['{"city": ""}'], ["{}"]),
    ({"type": "any_text", "excludes": ["bad"], "max_chars": 6}, ["", "ba d", "good文"], ["bad", "goodgoo"]),
    (of("sequence", FREE, const("END"), regex("[0-9]{2}")), ["END12", "a END12"], ["END", "x"]),
    *(
        (of("sequence", free, FINAL), [*accepted, "<final>5</final>", "<<final>5</final>"], refused)
        for free, accepted, refused in (
            (FREE, ["a<f>b<final>12</final>"], ["", "a", "<final>5", "a<final>x</final>", "a<final>5</final>b"]),
            ({**FREE, "max_chars": 2}, ["ab<final>5</final>"], ["abc<final>5</final>"]),
            (TRIGGERED, ["a<t>x</t>b<final>5</final>"], ["a<t>x</t>b", "<t>x<final>5</final>", "<tx<final>5</final>"]),
            (TRIGGERED | FIRST, ["a<t>x</t><final>5</final>"], ["<t>x</t>", "a<t>x</t>b<final>5</final>"]),
            (DISPATCH, ["a@n12; b<final>5</final>"], ["a@n12; b", "@n<final>5</final>"]),
            ({**DISPATCH, "loop": False}, ["a@n12;<final>5</final>"], ["a@n12; b<final>5</final>"]),
            (of("sequence", of("optional", TAGGED), FREE), ["<a>x</a>y<final>5</final>"], ["<a>x</a>y"]),
        )
    ),
    (
        of("sequence", FREE, TAGGED, FREE, const(";"), FINAL),
        ["<a>x</a>;<final>5</final>", "y<a>x</a>y<a>;<final>5</final>"],
        ["<a>x</a>", "y<a>y</a>;<final>5</final>", ";<final>5</final>", "<a>x</a>;y<final>5</final>"],
    ),
    (
        tag("<r>", of("sequence", FREE, FINAL), "</r>"),
        ["<r>a<final>5</final></r>"],
        ["<r>a</r>", "<r>a<final>5</final>b</r>"],
    ),
    ({**TRIGGERED, "triggers": ["<", "<t"]}, ["a<t>b</t>c"], ["<", "<t", "<x"]),
    (tag("", FREE, "</t>"), ["a</t>", "</t>"], ["", "a</t>b"]),
    (of("sequence", regex("[a-z]*"), const("z")), ["z", "zz", "abz"], ["a", ""]),
    (of("or", const("yes"), regex("[a-z]{1,2}"), json_of(INTEGER)), ["yes", "ye", "y", "12"], ["yess", "", "1a"]),
    (of("optional", const("x")), ["", "x"], ["xx"]),
    (
        of("sequence", const(";"), of("optional", TAGGED), {**FINAL, "begin": "<a>"}),
        [";<a>x</a><a>5</final>", ";<a>5</final>"],
        [";<a>x</a>", ";<a>x</final>"],
    ),
    (of("plus", regex("ab?")), ["a", "aab"], ["", "b"]),
    (of("star", const("ab")), ["", "abab"], ["aba"]),
    (of("repeat", const("x"), min=2, max=3), ["xx", "xxx"], ["x", "xxxx"]),
    (of("repeat", const("x"), min=1, max=-1), ["x", "xxxxx"], [""]),
    (tag("(", FREE, [")", "]"]), ["(a)", "(]"], ["(a", "(a)]"]),
    (tag("(", FREE, ["b)", ")"]), ["(ab)", "(a)"], ["(a", "(ab"]),
    (tag("<a>", json_of(CITY), ["</a>x", "</a>"]), ['<a>{"city": ""}</a>', '<a>{"city": ""}</a>x'], ["<a>"]),
    (tag("<r>", tag("<i>", FREE, "</i>"), "</r>"), ["<r><i>a</r></i></r>"], ["<r><i>a</r>", "<r></r>"]),
    (
        of("tags_with_separator", tag("<i>", json_of(INTEGER), "</i>"), separator=", ", at_least_one=True),
        ["<i>1</i>", "<i>1</i>, <i>2</i>"],
        ["", "<i>1</i>,<i>2</i>", "<i>1</i>, "],
    ),
    (of("dispatch", *DISPATCH["rules"], ["@s", const("!")]), ["a", "a @n12; b @s! c", "@"], ["@n", "@s?", "@nx"]),
    (
        of("triggered_tags", F, triggers=["<f"], at_least_one=True, **FIRST),
        ["<f>x</f>"],
        ["", "x", "<f>x</f>y", "<f>x"],
    ),
    (
        of("triggered_tags", F, G, triggers=["<f", "[g"], excludes=["bad"]),
        ["x<f>bad</f>y[g]1[/g]"],
        ["bad", "[gx", "[g]2[/g]", "<f>x</f>bad"],
    ),
]


FLAGGED: dict[str, dict[str, Any]] = {
    "triggered_tags": of("triggered_tags", TAGGED, triggers=["<"]),
    "tags_with_separator": of("tags_with_separator", TAGGED, separator=","),
}


@pytest.mark.parametrize("case", FORMATS, ids=lambda case: case[0]["type"])
def test_K8_every_format_of_the_tree(engine: Engine, case: tuple[Any, list[str], list[str]]):
    spec, accepted, refused = case
    plan = plan_of(engine, PLAIN, response_format=StructuralTag({"type": "structural_tag", "format": spec}))
    for text in accepted:
        assert accepts(plan, engine, text + END), text
    for text in refused:
        assert not accepts(plan, engine, text + END), text
    ends = (")", "]", "END12", "</i>", "</r>", "</f>", "1[/g]", "12;", "!", "b", "z", '"')
    ends += ("</t>", "<final>5</final>", "<a>x</a>;<final>5</final>")
    closers = tuple(end for end in ends if any(end in text for text in accepted))
    write_to_the_end(plan, engine, random.Random(0), wander=8, closers=closers)


FORMAT_ERRORS: list[tuple[Any, str]] = [
    ({"type": "xml"}, "format.type: unknown format 'xml'; expected any_text, const_string"),
    ({"type": "const_string"}, "format.value: None is not a text"),
    ({**const("a"), "valeu": 1}, "unknown key 'valeu'; expected type, value"),
    (of("sequence"), "format.elements: the list is empty"),
    (of("sequence", FREE, FREE), r"elements\[0\]: free text can only be followed by a literal or a tag"),
    (of("star", FREE), "free text cannot be repeated"),
    ({**FREE, "max_tokens": 5}, "max_tokens: tokens cannot be counted"),
    ({**FREE, "excludes": [5]}, r"excludes\[0\]: 5 is not a text"),
    (json_of({}, style="glm_xml"), "style 'glm_xml' is not supported"),
    (json_of({"type": "flot"}), "format.json_schema.*'flot'"),
    (regex("a("), r"format.pattern line 1, column 2: a group does not end"),
    (of("repeat", const("a"), min=3, max=2), "from 3 to 2"),
    (tag("a", FREE, []), "the tag has no end"),
    (
        tag("<", {"type": "grammar", "grammar": "root ::= [a-z]+"}, "end"),
        "content.grammar.*can never end.*leave the delimiter out",
    ),
    (of("dispatch", ["ab", FREE], ["b", FREE]), "'b' is contained in 'ab'"),
    (of("dispatch", ["@n", FREE], ["@", FREE]), "format.rules: '@' is contained in '@n'"),
    (of("sequence", {**TRIGGERED, "triggers": ["<"]}, FINAL), r"elements\[0\].triggers: '<' is contained in '<final>'"),
    ({**TAGGED, "content": DISPATCH, "end": "@n2"}, "content.rules: '@n' is contained in '@n2'"),
    ({**TAGGED, "content": DISPATCH, "end": ["x", "@n"]}, "content.rules: '@n' is contained in '@n'"),
    *(
        ({**TAGGED, "content": content, "end": ["</a>.", "</a>"]}, "content.*: '</a>' is contained in '</a>.'")
        for content in (FREE, regex(".*"), DISPATCH)
    ),
    ({**TRIGGERED, "triggers": ["<t", "<u"]}, r"triggers\[1\]: no tag begins with '<u'"),
    (json_of({}, any_order=True), "any_order: keys come in the schema"),
    *(
        (json_of({}, **{key: value}), f"format.{key}: .* is not supported")
        for key, value in (("max_whitespace_cnt", 0), ("max_whitespace_cnt", 2), ("excludes", ["a"]))
    ),
    ({"type": "exclude_token", "exclude_tokens": [1]}, "unknown format 'exclude_token'"),
    ({**TAGGED, "begin": {"type": "token", "token": "<think>"}}, "format.begin: .* is not a text"),
    *(
        ({**FLAGGED[kind], key: "false"}, f"{key}: 'false' is not true or false")
        for kind in FLAGGED
        for key in ("at_least_one", "stop_after_first")
    ),
    ({"type": "dispatch", "loop": 1, "rules": [["<a>", FREE]]}, "format.loop: 1 is not true or false"),
]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        *(({"format": spec}, message) for spec, message in FORMAT_ERRORS),
        ({}, "structural_tag: the structural tag has no format"),
        (5, "not an object"),
        ("{", "not JSON"),
        (
            {"structures": [{"begin": "a", "end": "b"}], "triggers": ["x"]},
            r"structures\[0\].begin: 'a' begins with no trigger",
        ),
        ({"structures": [], "triggers": ["x"]}, "structures: the list is empty"),
        ({"tag": ""}, "the tag is empty"),
        ({"tag": "a", "start_tag": "<b>"}, "tag and start_tag both give the opening tag; expected one of the two"),
        ({"start_tag": "begin"}, "no end tag can be derived from 'begin'"),
        (
            {"structures": [{"begin": "<n>", "schema": {"type": "number"}, "end": "END"}], "triggers": ["<n>"]},
            r"structures\[0\].end: ",
        ),
        (
            {"structures": [{"begin": "<n>", "schema": {"type": "no"}, "end": "</n>"}], "triggers": ["<n>"]},
            r"structures\[0\].schema: ",
        ),
        ({"tag": "n", "schema": {"properties": {"a.end": {"type": 1}}}}, "structural_tag.schema/properties/a.end: "),
        ({"tag": "n", "schema": {"type": "number"}, "end_tag": "END"}, "structural_tag.end_tag: "),
        ({"tag": "n", "schema": {"type": "no"}}, "structural_tag.schema: "),
    ],
)
def test_K8_what_cannot_be_read_is_named_with_its_place(engine: Engine, spec: Any, message: str):
    with pytest.raises(RequestError, match=message):
        plan_of(engine, response_format=StructuralTag(spec))
