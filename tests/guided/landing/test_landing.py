"""A landing is the least way to the end where brute force knows it, and one that the masks allow from any place."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

import guided
from grammars.limits.deadline import time_limits, use_time_limits
from grammars.plan.plan import Plan
from grammars.values.constraints import JsonSchema
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.landing.byte_twin import ByteMask, ByteTwin
from guided.landing.effort import Effort
from guided.landing.landing import Landing, LandingSearch
from guided.landing.path import EndPath, remaining_from
from guided.landing.search import _Node as SearchNode
from guided.rows.answer import read_answer
from guided.state.state import GuidanceState
from tests.cases import seeds
from tests.judges.plans import FORMAT, drawn, plan_of, walk
from tests.made_up.wire_forms import FORMS, TOOLS

#: Formats whose sentences are few or short, so that every row of tokens can be tried.
TINY: dict[str, Any] = {
    "choice": guided.Choice(["hello world", "abcdef", "xyz"]),
    "regex": guided.Regex("(ab|c){2,3}d?x"),
    "alternatives of different length": guided.Regex("a{9}|[bc][de]f|gh[ij]{2}k"),
    "recursive Lark": guided.Lark('start: "a" start "b" | "(" start ")" | "cde"'),
    "left recursion": guided.Lark('start: start "," item | item item\nitem: "x" | "[" start "]"'),
    "enum": JsonSchema({"enum": ["abc", 17, [1, 2]]}),
    "array": JsonSchema({"type": "array", "items": {"enum": [10, "a"]}, "minItems": 2, "maxItems": 3}),
    "required after optional": JsonSchema(
        {
            "type": "object",
            "properties": {"a": {"const": 1}, "b": {"const": True}, "c": {"enum": ["x", 0]}},
            "required": ["c"],
            "additionalProperties": False,
        }
    ),
    "one of two objects": JsonSchema(
        {
            "anyOf": [
                {"type": "object", "properties": {"kind": {"const": k}, k: {"const": 1}}, "required": ["kind", k],
                 "additionalProperties": False}
                for k in ("long", "s")
            ]
        }
    ),
}  # fmt: skip


def least_tokens(plan: Plan, engine: Engine, most: int = 24) -> int:
    """The fewest tokens of an output, its end included, by trying every row of tokens in order of length."""
    places = [engine.pristine(plan, plan.entries[-1].name).deep_copy()]
    ends = {end.sentinel for end in plan.ends}
    for size in range(most):
        after = []
        for matcher in places:
            words = np.frombuffer(matcher.compute_bitmask(), dtype=np.int32)
            ids = allowed_ids(words)
            if not ends.isdisjoint(ids):
                return size + 1
            for token in ids:
                twin = matcher.deep_copy()
                assert twin.consume_token(token)
                after.append(twin)
        places = after
        assert len(places) < 50_000
    raise AssertionError(f"no end within {most} tokens")


def ended(plan: Plan, engine: Engine, text: str = "", **limits: Any) -> tuple[GuidanceState, Landing]:
    """The state after a text of the response, and the shortest end that is found from there."""
    entry = plan.entries[-1].name
    state = GuidanceState(plan, engine, entry=entry)
    state.commit(engine.tokenize(text))
    return state, LandingSearch(plan, engine, entry=entry).shortest_end(state, **limits)


@pytest.mark.parametrize("name", TINY)
def test_no_output_has_fewer_tokens_than_the_search_finds(engine: Engine, name: str) -> None:
    plan = plan_of(engine, response_format=TINY[name], thinking=False)
    state, landing = ended(plan, engine)
    assert landing.tokens is not None, landing.reason
    assert walk(plan, engine, landing.tokens, state.entry.name).is_whole
    assert len(landing.tokens) == least_tokens(plan, engine)


ADDRESS = {"type": "object", "properties": {"street": {"type": "string"},
           "zip": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required": ["street", "zip"]}  # fmt: skip
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "nick": {"type": "string"},
        "age": {"type": "integer", "minimum": 18},
        "home": ADDRESS,
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
        "size": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["name", "age", "home", "tags", "size", "born"],
    "additionalProperties": False,
}
TREE = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {
    "type": "array", "items": {"$ref": "#/$defs/n"}}}, "required": ["v", "kids"]}}}  # fmt: skip
TAGS = {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "end": "</a>",
        "content": {"type": "json_schema", "json_schema": PERSON}}}  # fmt: skip
ANY_TEXT = {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "end": "</a>",
            "content": {"type": "any_text"}}}  # fmt: skip
EMAIL = "[a-z]{1,8}@[a-z]{2,5}\\.(com|org)"

#: The parts of a request for every kind of plan, the format, and the response's judge.
KINDS: dict[str, dict[str, Any]] = {
    "json": {"response_format": JsonSchema(PERSON)},
    "recursive json": {"response_format": JsonSchema(TREE)},
    "regex": {"response_format": guided.Regex(EMAIL)},
    "choice": {"response_format": guided.Choice(["yes", "no", "maybe so"])},
    "lark": {"response_format": guided.Lark('start: e\ne: e "+" t | t\nt: t "*" f | f\nf: "(" e ")" | /[0-9]+/')},
    "gbnf": {"response_format": guided.Gbnf('root ::= "a" root "b" | [0-9]+ "!"')},
    "structural tag": {"response_format": guided.StructuralTag(TAGS)},
    "text in a tag": {"response_format": guided.StructuralTag(ANY_TEXT)},
    "free text": {},
    **{f"{preset} {level}": {"response_format": JsonSchema(PERSON), "reasoning_effort": level,
                             "reasoning_preset": preset}
       for preset in ("native", "structured") for level in ("low", "medium", "high")},
    **{f"calls: {name}": {"tools": [tool.to_openai() for tool in TOOLS.values()], "tool_choice": "required",
                          "form": name} for name in FORMS},
}  # fmt: skip


def made(engine: Engine, kind: str) -> Plan:
    parts = dict(KINDS[kind])
    form = parts.pop("form", None)
    return plan_of(engine, FORMAT if form is None else replace(FORMAT, tool_calls=FORMS[form]), **parts)


def strayed(plan: Plan, engine: Engine, chance: random.Random, steps: int) -> GuidanceState:
    """A state after random allowed tokens."""
    state = GuidanceState(plan, engine)
    for _ in range(steps):
        ids = allowed_ids(state.mask())
        ends = plan.end_ids()
        ids = [i for i in ids if i not in ends]
        if not ids or state.is_stopped:
            break
        state.commit([next(drawn(ids, engine, chance))])
    return state


@pytest.mark.parametrize("seed", seeds(12, default=2))
@pytest.mark.parametrize("kind", KINDS)
def test_a_landing_ends_an_answer_from_any_place(engine: Engine, kind: str, seed: int) -> None:
    plan = made(engine, kind)
    chance = random.Random(f"{kind} {seed}")
    search = LandingSearch(plan, engine)
    for steps in (0, chance.randint(1, 8), chance.randint(9, 60)):
        state = strayed(plan, engine, chance, steps)
        before = list(state.tokens)
        landing = search.shortest_end(state)
        assert landing.tokens is not None, (landing, b"".join(map(engine.token_bytes, before)))
        assert list(state.tokens) == before
        whole = [*before, *landing.tokens]
        assert walk(plan, engine, whole).is_whole
        check_value(plan, engine, whole)


#: Long texts that must be written, next to values and members that need not: none may hide what ends the answer.
EITHER = {"type": "object", "oneOf": [
    {"properties": {"uri": {"type": "string"}}, "required": ["uri"]},
    {"properties": {"id": {"type": "string"}}, "required": ["id"]}]}  # fmt: skip
LEVELS = {"type": "object", "required": ["initial level"], "properties": {
    "extension levels": {"type": "array", "items": {"type": "object", "required": ["provisions"], "properties": {
        "provisions": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["request"]}}}}},
    "initial level": {"type": "object", "required": ["functionality provisions"], "properties": {
        "functionality provisions": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["request", "offer"], "properties": {
                "distance": {"type": "number"}, "offer": EITHER, "request": EITHER}}}}}}}  # fmt: skip
OPTIONS = {"type": "object", "required": [f"part {i}" for i in range(6)], "properties": {f"part {i}": {
    "type": "object", "required": ["properties"], "properties": {
        "type": {"enum": ["a", "b"]}, "version": {"enum": ["2015-05-01", "2015-06-15"]},
        "properties": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}
    for i in range(6)}}  # fmt: skip
NAMES = {"type": "object", "required": (names := [f"name {i}" for i in range(5)]), "additionalProperties": False,
         "properties": {name: {"type": "string", "minLength": 44, "maxLength": 45} for name in names}}  # fmt: skip


#: Keys that no list of properties shows, and of which no byte shows the nearest end.
KEYS = {"type": "object", "allOf": [
    *({"not": {"propertyNames": {"not": {"const": name}}}} for name in ("a4", "a4d3")),
    {"propertyNames": {"pattern": "^([a-z][0-9])+$"}}]}  # fmt: skip
#: Blocks that only a keyword closes, where names of the same letters may be written.
BLOCKS = (
    guided.Lark(
        'start: block\nblock: "begin " (stmt " ")+ "end"\n'
        'stmt: NAME "=" NUMBER ";" | "if " NAME " then " stmt " fi" | block\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/'
    ),
    guided.Gbnf(
        'root ::= block\nblock ::= "begin " (stmt " ")+ "end"\n'
        'stmt ::= name "=" [0-9]+ ";" | "if " name " then " stmt " fi" | block\nname ::= [a-z]+'
    ),
)
#: Grammars whose quoted texts do not close what is open, or hold quotes.
TEMPLATES = (
    guided.Lark('start: TEXT? ("{{" NAME "}}" TEXT?)* "\\n"\nTEXT: /[^{}\\n]+/\nNAME: /[a-z]+/'),
    guided.Lark('start: TEXT? ("{{" NAME "}}" TEXT?)* END\nEND: /;;/\nTEXT: /[^{};]+/\nNAME: /[a-z"]+/ // "'),
    guided.Gbnf('root ::= ( [^{}\\n] | "{{" [a-z]+ "}}" )* "\\n"'),
    guided.Gbnf('root ::= "\\"" ( [^"$\\\\] | "${" root "}" )* "\\"" # "'),
)


def rules(number: int) -> guided.Lark:
    """Many rules, each of which ends with a long text of its own."""
    lines = (f'r{i}: "kw{i} " NAME " is the end of rule number {i};"' for i in range(number))
    return guided.Lark("\n".join((f"start: {' | '.join(f'r{i}' for i in range(number))}", *lines, "NAME: /[a-z]+/")))


def _tag(pattern: str) -> guided.StructuralTag:
    content = {"type": "regex", "pattern": pattern}
    form = {"type": "tag", "begin": "<a>", "end": "</a>", "content": content}
    return guided.StructuralTag({"type": "structural_tag", "format": form})


#: Responses, texts of theirs, and the most tokens of the shortest end after each.
FOUND: list[tuple[Any, str, int]] = [
    (JsonSchema(KEYS), '{"k9": 0', 20),
    (JsonSchema(LEVELS), '{"extension levels": [{', 120),
    (JsonSchema(OPTIONS), '{"part 0": {"', 200),
    (JsonSchema(NAMES), '{"name 0": "', 260),
    *((grammar, "", 7) for grammar in TEMPLATES),
    *((grammar, text, 16) for grammar in BLOCKS
      for text in ("", "begin ", "begin ab=12; ", "begin begin x=1; ", "begin if en", "begin a=1; e")),
    *((_tag(pattern), "<a>hello", 5) for pattern in ("[a-z]+", "^[a-z]{1,40}$", "^[A-Za-z0-9]+$")),
    *((rules(number), text, 26) for number in (10, 120, 300) for text in ("kw7 some", "kw7 some is the e")),
]  # fmt: skip


@pytest.mark.parametrize(("response_format", "text", "most"), FOUND)
def test_the_nearest_end_is_found_among_others(engine: Engine, response_format: Any, text: str, most: int) -> None:
    plan = plan_of(engine, response_format=response_format, thinking=False)
    state, landing = ended(plan, engine, text, effort=Effort(cpu_s=60.0))
    assert landing.tokens is not None, landing.reason
    assert walk(plan, engine, [*state.tokens, *landing.tokens], state.entry.name).is_whole
    assert len(landing.tokens) <= most


def check_value(plan: Plan, engine: Engine, tokens: list[int]) -> None:
    """By judges that know nothing of masks: what was written is valid."""
    message = read_answer(tokens, plan, engine)
    if plan.tool_choice == "required":
        assert message.tool_calls
        for call in message.tool_calls:
            jsonschema.validate(json.loads(call.arguments), TOOLS[call.name].parameters)
    elif plan.response is not None and plan.response.kind == "json":
        jsonschema.validate(json.loads(message.content), plan.response.schema)
    elif plan.response is not None and plan.response.kind == "regex":
        assert re.fullmatch(EMAIL, message.content)
    elif plan.response is not None and plan.response.kind == "choice":
        assert message.content in plan.response.choices


#: Grammars whose end is far, one of very many places, or costly to reach.
HOSTILE: dict[str, Any] = {
    "a thousand letters": guided.Regex("[a-z]{1000}"),
    "intertwined": guided.Regex("([ab]{3,40}c){30}[ab]*a[ab]{16}d"),
    "ambiguous": guided.Lark('start: e "!"\ne: e e | "a" | "b"'),
    "a thousand items": JsonSchema({"type": "array", "minItems": 1_000, "items": {"type": "array", "minItems": 2}}),
    "many different items": JsonSchema(
        {"type": "array", "minItems": 300, "uniqueItems": True, "items": {"type": "string", "pattern": "^[ab]{40}$"}}
    ),
    "long words": JsonSchema({"type": "string", "pattern": "^([a-z]+-){400}z$"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_search_is_bounded_in_all(engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, entered, look = plan_of(engine, response_format=HOSTILE[name], thinking=False), [], SearchNode.look
    monkeypatch.setattr(SearchNode, "look", lambda node: entered.append(node) or look(node))
    search = LandingSearch(plan, engine)
    state = GuidanceState(plan, engine)
    begun = time.thread_time()
    landing = search.shortest_end(state, effort=Effort(cpu_s=0.1, places=500))
    assert time.thread_time() - begun < 2.5  # one step of the engine, and writing a long text, are not cut
    if landing.tokens is None:
        assert "no end was found within" in landing.reason or "masks" in landing.reason
    elif len(landing.tokens) < 2_000:
        assert walk(plan, engine, landing.tokens).is_whole
    else:  # the masks of all its tokens take a minute
        text = b"".join(map(engine.token_bytes, landing.tokens[:-1]))
        jsonschema.validate(json.loads(text[text.index(b"[") :]), HOSTILE[name].schema)
    entered.clear()
    search.shortest_end(state, effort=Effort(cpu_s=30.0, places=500))
    assert len(entered) <= 500  # of all preferences together


def test_an_end_that_is_not_found_is_none_with_its_reason(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(engine, response_format=HOSTILE["long words"], thinking=False)
    monkeypatch.setattr("guided.landing.landing.response_text", lambda _: b"")
    search, state = LandingSearch(plan, engine), GuidanceState(plan, engine)
    landing = search.shortest_end(state, effort=Effort(cpu_s=60.0, places=20))
    assert landing.tokens is None
    tried = re.fullmatch("no end was found within ([0-9]+) places, as many as it may try", landing.reason)
    assert tried is not None
    assert 0 < int(tried[1]) <= 20  # classes of bytes take the place of some
    assert search.shortest_end(state, effort=Effort(cpu_s=60.0, cost=30.0)).reason.startswith("no end is near enough")
    with use_time_limits(replace(time_limits(), landing_cpu_s=-1.0)):
        late = search.shortest_end(state)
    assert (late.tokens, late.reason) == (None, "no end was found within 0 places, when its processor time was used up")


def test_looks_for_rests_leave_half_of_the_effort(engine: Engine) -> None:
    """Each is paid for by its length: a step's work is bounded without a clock."""
    state = GuidanceState(plan_of(engine, response_format=JsonSchema({}), thinking=False), engine)
    search = LandingSearch(state.plan, engine)
    looks: list[Any] = []
    refusing: Any = SimpleNamespace(
        mask=lambda: ByteMask(1 << 0x5B, ()), ends=frozenset((1,)), to_ids=list, accepts_ids=lambda _: True,
        ends_after=looks.append,
    )  # fmt: skip
    place, effort = search.follow(state)[1], Effort(cpu_s=60.0, places=100)
    assert remaining_from(refusing, place, search.places, EndPath(tuple(b"[" * 3_000)), effort) == -1
    assert 45 < effort.left < 50
    assert 100 < len(looks) < 500


#: Any value may stand in each of forty members.
WIDE = {"type": "object", "properties": (anything := {f"member {i}": {} for i in range(40)}), "required": [*anything]}

#: Long answers, most of which have many values to choose from.
LONG: dict[str, Any] = {
    "162 letters somewhere": JsonSchema({"type": "string", "pattern": "[a-z]{162}"}),
    "an ending after any text": guided.Regex(r"/images/.*\.(gif|jpg)"),
    "any values": JsonSchema(WIDE),
    "any values, digits": JsonSchema(
        {**WIDE, "properties": {name: {"type": ["integer", "array"]} for name in anything}}
    ),
    "items that differ": JsonSchema({"type": "array", "minItems": 60, "uniqueItems": True, "items": {}}),
}


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("name", LONG)
def test_a_long_answer_is_found(engine: Engine, name: str, thinking: bool) -> None:
    plan = plan_of(engine, response_format=LONG[name], thinking=thinking)
    effort = Effort(cpu_s=2.0)
    landing = LandingSearch(plan, engine).shortest_end(GuidanceState(plan, engine), effort=effort)
    assert landing.tokens is not None, landing.reason
    assert effort.left > 1_500
    assert walk(plan, engine, landing.tokens).is_whole
    assert not read_answer(landing.tokens, plan, engine).violations


@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_reasoning_takes_no_text_of_the_response(engine: Engine, level: str) -> None:
    plan = made(engine, f"structured {level}")
    landing = LandingSearch(plan, engine).shortest_end(GuidanceState(plan, engine))
    assert landing.tokens is not None
    assert len(landing.tokens) < 400


def test_threads_read_masks_of_their_own(engine: Engine) -> None:
    """Found by calls in four threads, of which some landed otherwise than alone: one row of memory held all masks."""
    twin = engine.derived(ByteTwin)
    choices = [guided.Choice(list(letters)) for letters in ("ab", "cd", "ef", "gh")]
    plans = [plan_of(engine, response_format=choice, thinking=False) for choice in choices]
    matchers = [twin.matcher(plan) for plan in plans]
    for matcher in matchers:
        assert matcher.feed(matcher.forced())
    alone = [matcher.mask() for matcher in matchers]
    assert len(set(alone)) == len(alone)
    wrong: list[int] = []

    def read(number: int) -> None:
        wrong.append(sum(matchers[number].mask() != alone[number] for _ in range(3_000)))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(plans))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * len(plans)
