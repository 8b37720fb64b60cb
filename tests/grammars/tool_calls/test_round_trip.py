"""The round-trip law: a syntax's grammar accepts what it renders, and its parser reads it back, however cut."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from grammars.tool_calls.reader import ArgumentsDelta, CallEnded, CallStarted, CutCall, StrayText
from grammars.tool_calls.syntaxes.lookup import SYNTAXES, syntax
from grammars.values.tool import Call, Tool
from guided.engine.engine import Engine
from special_tokens.errors import ModelError, ToolError
from tests.cases import costly, seeds
from tests.conftest import small_engine
from tests.judges.tool_calls import calls_of, read, refused_at, section
from tests.made_up.wire_forms import FORMS, MARKERS, TOOLS, calls


@pytest.fixture(scope="module")
def marked_engine() -> Engine:
    """Words, bytes, and a token for every marker that some family has as one."""
    return small_engine(MARKERS, special=MARKERS)


@pytest.fixture(scope="module", params=["tokens", "text"])
def wire_engine(request: pytest.FixtureRequest, marked_engine: Engine, plain_engine: Engine) -> Engine:
    return marked_engine if request.param == "tokens" else plain_engine


def test_every_syntax_has_a_form_here() -> None:
    assert {form.syntax for form in FORMS.values()} == set(SYNTAXES)


@pytest.mark.parametrize("name", FORMS)
@costly
@given(data=st.data())
def test_what_is_rendered_is_accepted_and_read_back(wire_engine: Engine, name: str, data: st.DataObject) -> None:
    form = FORMS[name]
    made = data.draw(calls(form.max_calls))
    written = json.dumps([call.arguments for call in made], ensure_ascii=False)
    assume(all(isinstance(piece, str) for piece in wire_engine.tokens.pieces(written)))  # text is not a token
    try:
        text = syntax(form.syntax).render(form, made, TOOLS)
    except ToolError:
        assume(False)  # a value that holds its own end: the next test
    assert refused_at(wire_engine, section(wire_engine, form, list(TOOLS.values())), text) is None
    events, rest = read(wire_engine, form, TOOLS, text)
    assert ([Call(c.name, c.arguments) for c in calls_of(events)], rest.strip()) == (made, "")
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=20))
    assert read(wire_engine, form, TOOLS, text, cuts) == (events, rest)
    assert read(wire_engine, form, TOOLS, text, range(len(text))) == (events, rest)


_RAW = [
    name
    for name, form in FORMS.items()
    if form.syntax in ("xml_equals", "invoke", "key_tags", "gemma") and form.option("strings") != "json"
]


def _one(name: str, tool: Tool, arguments: dict[str, Any]) -> str:
    form = FORMS[name]
    return syntax(form.syntax).render(form, [Call(tool.name, arguments)], {tool.name: tool})


def _with(properties: dict[str, Any], required: tuple[str, ...] = ()) -> Tool:
    return Tool("f", parameters={"type": "object", "properties": properties, "required": list(required)})


#: Values that broke grammars elsewhere.
_SIX = ["plain", "a < b </x>", "one\n\n中文", "", "ends with a line break\n", "holds </parameter > in a line"]
PIECES = (*"a</>\n =", "</", "parameter", "</parameter", "</invoke>", "<parameter=y>", "b ", "\n\n")


@pytest.mark.parametrize("seed", seeds(3, default=1))
@pytest.mark.parametrize("name", _RAW)
@pytest.mark.parametrize("pattern", [None, "^[^q]*$"])
def test_what_masks_let_a_value_be_is_what_is_read(
    wire_engine: Engine, name: str, pattern: str | None, seed: int
) -> None:
    """T2: the judge writes and reads back: six values, and texts of pieces of tags, as far as it can write them."""
    string: dict[str, Any] = {"type": "string"} | ({} if pattern is None else {"pattern": pattern})
    tool = Tool("f", parameters={"type": "object", "properties": {"x": string, "y": string}, "required": ["x", "y"]})
    form, rng = FORMS[name], random.Random(f"{name} {seed}")
    node = section(wire_engine, form, [tool])
    tried = 0
    texts = _SIX + ["".join(rng.choices(PIECES, k=rng.randint(0, 6))) for _ in range(40)]
    for values in ({"x": x, "y": y} for x, y in zip(texts[::2], texts[1::2], strict=True)):
        try:
            text = syntax(form.syntax).render(form, [Call("f", values)], {"f": tool})
        except ToolError:
            continue
        tried += 1
        assert refused_at(wire_engine, node, text) is None, text
        assert [call.arguments for call in calls_of(read(wire_engine, form, {"f": tool}, text)[0])] == [values], text
    assert tried > 6


@pytest.mark.parametrize("name", _RAW)
def test_nothing_runs_on_after_a_closed_value(wire_engine: Engine, name: str) -> None:
    form, tool = FORMS[name], _with({"a": {"type": "string"}}, ("a",))
    text = _one(name, tool, {"a": "x"})
    closed = text.index("x") + 1
    for more in ("more", "\nmore", "<more>"):
        broken = text + more
        assert refused_at(wire_engine, section(wire_engine, form, [tool]), broken, complete=False) >= closed  # type: ignore[operator]


PROPERTIES = {
    "a": {"type": "string", "minLength": 2},
    "b": {"type": "integer"},
    "c": {"type": "string", "enum": ["D", "E"]},
    "d": {"type": "string", "pattern": "^[a-z]+$"},
}
CHECKED = _with(PROPERTIES, ("a",))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"b": 1}, "a required argument is missing"),
        ({"a": "xx", "zz": 1}, "an argument that the tool has not"),
        ({"a": "xx", "b": "not a number"}, "an ill-typed argument"),
        ({"a": "xx", "b": 7.5}, "a fraction where an integer is asked for"),
        ({"a": "x"}, "too short a string"),
        ({"a": "xx", "c": "C"}, "not in the enum"),
        ({"a": "xx", "d": "b1"}, "not of the pattern"),
    ],
)
def test_calls_that_break_the_schema_are_refused(
    wire_engine: Engine, name: str, arguments: dict[str, Any], wrong: str
) -> None:
    text = _one(name, Tool("f", parameters={}), arguments)
    assert refused_at(wire_engine, section(wire_engine, FORMS[name], [CHECKED]), text) is not None, wrong


@pytest.mark.parametrize("name", FORMS)
def test_a_name_that_no_tool_has_is_refused(wire_engine: Engine, name: str) -> None:
    form = FORMS[name]
    text = _one(name, Tool("get_tim"), {})
    assert refused_at(wire_engine, section(wire_engine, form, [TOOLS["get_time"]]), text) is not None


@pytest.mark.parametrize(
    ("name", "tool", "message"),
    [
        ("xml", Tool("a>b"), r"tools\.a>b: name 'a>b' contains '>'"),
        ("xml", _with({"k>": {"type": "string"}}), r"/tools/f/parameters/properties/k>: name 'k>' contains '>'"),
        ("invoke", Tool('a">b'), "contains '\"'"),
        ("key tags, tight", Tool("a<arg_key>"), "contains '<arg_key>'"),
        ("name and number", Tool("a:b"), "contains ':'"),
        ("pythonic", Tool("get-time"), "is not a Python name"),
        ("pythonic", _with({"a b": {}}), "'a b' is not a Python name"),
        ("gemma", _with({"a:b": {}}), "contains ':'"),
        ("key tags", Tool("a\nb"), "contains"),
    ],
)
def test_names_that_a_syntax_cannot_write_are_refused(engine: Engine, name: str, tool: Tool, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        section(engine, FORMS[name], [tool])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("xml", "a\n</parameter>\nb"),
        ("xml", "a </parameter> b"),
        ("xml, tight", "a</parameter>\nb"),
        ("key tags, tight", "a</arg_value>b"),
        ("gemma", 'a<|"|>b'),
    ],
)
def test_a_value_that_holds_its_own_end_is_refused(name: str, value: str) -> None:
    with pytest.raises(ToolError, match="ends a"):
        _one(name, _with({"a": {"type": "string"}}), {"a": value})


def test_a_text_is_a_string_where_the_schema_says_so(wire_engine: Engine) -> None:
    """Type conversion is by schema only: text that looks like JSON stays text in a string argument."""
    tool = _with({"s": {"type": "string"}, "n": {"type": "number"}, "u": {"type": ["string", "integer"]}})
    arguments = {"s": "true", "n": 12, "u": "x1"}
    for name in _RAW:
        text = _one(name, tool, arguments)
        assert calls_of(read(wire_engine, FORMS[name], {"f": tool}, text)[0])[0].arguments == arguments, name


def test_a_flag_in_the_tag_tells_types_that_raw_text_cannot(wire_engine: Engine) -> None:
    tool = _with({"u": {"type": ["string", "integer"]}}, ("u",))
    for value in ("5", 5):
        for name in ("invoke with a flag", "key tags with types"):
            text = _one(name, tool, {"u": value})
            assert refused_at(wire_engine, section(wire_engine, FORMS[name], [tool]), text) is None
            assert calls_of(read(wire_engine, FORMS[name], {"f": tool}, text)[0])[0].arguments == {"u": value}
    text = _one("xml", tool, {"u": "5"})
    assert calls_of(read(wire_engine, FORMS["xml"], {"f": tool}, text)[0])[0].arguments == {"u": 5}  # no flag: a number


def test_an_order_of_arguments_that_no_syntax_writes_is_an_error(wire_engine: Engine) -> None:
    form = replace(FORMS["xml"], options=(("order", "any"),))
    with pytest.raises(ModelError, match="unknown order 'any'.*expected schema or sorted"):
        section(wire_engine, form, [_with({"a": {"type": "string"}})])


def test_values_in_the_family_s_own_words_are_read_and_allowed(wire_engine: Engine) -> None:
    tool = _with({"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"type": "object"}})
    body = "<parameter=a>\nTrue\n</parameter>\n<parameter=b>\nNone\n</parameter>\n"
    text = f"<tool_call>\n<function=f>\n{body}</function>\n</tool_call>"
    form = FORMS["xml"]
    assert refused_at(wire_engine, section(wire_engine, form, [tool]), text) is None
    text = text.replace("</function>", "<parameter=c>\n{'u': 'C', 'k': [1, None]}\n</parameter>\n</function>")
    read_back = calls_of(read(wire_engine, form, {"f": tool}, text)[0])[0].arguments
    assert read_back == {"a": True, "b": None, "c": {"u": "C", "k": [1, None]}}


def test_strings_that_no_one_escaped_end_where_the_next_argument_begins(wire_engine: Engine) -> None:
    text = "<|tool_call_start|>[f(a='it's \"so\"\n, b', b='x', c=True)]<|tool_call_end|>"
    tool = _with({"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "boolean"}})
    read_back = calls_of(read(wire_engine, FORMS["pythonic"], {"f": tool}, text)[0])[0].arguments
    assert read_back == {"a": 'it\'s "so"\n, b', "b": "x", "c": True}


def test_parallel_calls_stop_where_the_family_stops(wire_engine: Engine) -> None:
    form, tools = FORMS["bare"], [TOOLS["get_time"]]
    one = syntax(form.syntax).render(form, [Call("get_time", {})], TOOLS)
    assert refused_at(wire_engine, section(wire_engine, form, tools), one) is None
    assert refused_at(wire_engine, section(wire_engine, form, tools), one + one) == len(one)


@pytest.mark.parametrize("name", FORMS)
def test_cut_output_loses_no_text(wire_engine: Engine, name: str) -> None:
    """Cut anywhere, what comes out holds every argument character that went in, and never a whole call too many."""
    text = _one(name, TOOLS["set_mode"], {"mode": "fast", "note": "some words"})
    whole = read(wire_engine, FORMS[name], TOOLS, text)[0]
    for cut in range(1, len(text)):
        events = read(wire_engine, FORMS[name], TOOLS, text[:cut])[0]
        said = "".join(e.text for e in events if isinstance(e, ArgumentsDelta | CutCall))
        said += "".join(e.name for e in events if isinstance(e, CallStarted))
        for word in ("fast", "some", "words"):
            assert (word in text[:cut]) <= (word in said), (cut, events)
        assert sum(isinstance(e, CallEnded) for e in events) <= 1
        assert calls_of(whole)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("junk", ["", "no call at all", '{"a": 1', "<<<", "]", "\n\n", "é{(["])
def test_what_is_no_call_comes_out_as_text(wire_engine: Engine, name: str, junk: str) -> None:
    form = FORMS[name]
    text = (form.section_start + form.call_start).rstrip() + " " + junk
    events, rest = read(wire_engine, form, TOOLS, text)
    assert not any(isinstance(event, CallEnded) for event in events)
    said = "".join(event.text for event in events if isinstance(event, StrayText | CutCall | ArgumentsDelta)) + rest
    said += "".join(event.name for event in events if isinstance(event, CallStarted))
    assert sorted(filter(str.isalnum, said)) == sorted(filter(str.isalnum, junk)) or junk.strip() in said


@costly
@given(value=st.text(max_size=6), data=st.data())
@example(value="a\x7f", data=None)
def test_escapes_of_python_are_read_however_short_the_rest(plain_engine: Engine, value: str, data: Any) -> None:
    """A call that ends within the length of the longest escape lost its end."""
    text = f"[f(k={json.dumps(value)})]"
    tools = {"f": _with({"k": {"type": "string"}})}
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8)) if data is not None else ()
    events, rest = read(plain_engine, FORMS["pythonic, bare"], tools, text, cuts)
    kept = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert ([call.arguments for call in calls_of(events)], rest) == ([{"k": kept}], "")
