"""Request bodies as clients send them: each key is read, listed, or refused by its name."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import llguidance
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.compose.compose import compose
from grammars.plan.plan import Plan
from grammars.plan.wire import decode_plan, encode_plan
from grammars.requests.keys import CONSTRAINT_ALIASES, GUIDANCE, HARMLESS, PROMPT, SAMPLING, UNSUPPORTED
from grammars.requests.read import read_request
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.engine.engine import Engine
from guided.inspect.check import check_request
from guided.output.message import Guidance, Usage
from guided.output.message_builder import MessageBuilder
from guided.sampling import Sampling
from guided.state.state import GuidanceState
from special_tokens.errors import GuidedError, RequestError
from tests.judges.plans import END, FORMAT, accepts
from tests.made_up.schemas import closed

SCHEMA = closed({"a": {"type": "integer"}})
OBJECT, NOT_OBJECT = '{"a": 5}', '{"a": "5"}'
LARK, GBNF = 'start: "x" /[0-9]/', 'root ::= "x" [0-9]'
LLGUIDANCE = {"grammars": [{"lark_grammar": LARK}]}
TAG = {"tag": "n", "schema": {"type": "integer"}}
FUNCTION = {"name": "f", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION}, {"type": "function", "function": {"name": "g"}}]
G = {"type": "function", "function": {"name": "g"}}
CALL, CALL_G = '<tool_call>\n{"name": "f", "arguments": {"a": 5}}\n</tool_call>', (
    '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
)  # fmt: skip


DEEP: Any = []
for _ in range(5_000):
    DEEP = [DEEP]


def plan_for(body: Any, engine: Engine, **options: Any) -> Plan:
    return check_request(body, tokens=engine.tokens, format=FORMAT, engine=engine, **options).plan


def writes(plan: Plan, engine: Engine, text: str) -> bool:
    """Whether the answer after a closed reasoning block may be ``text``."""
    return accepts(plan, engine, text + END, "after")


#: What a constraint of the field may hold, a text of it, and one that is not.
FIELDS: dict[str, list[tuple[Any, str, str]]] = {
    "choice": [(["yes", "no"], "no", "maybe")],
    "regex": [("[A-Z]{2}[0-9]", "AB1", "ABC")],
    "json": [(SCHEMA, OBJECT, NOT_OBJECT), (json.dumps(SCHEMA), OBJECT, NOT_OBJECT)],
    "json_object": [(True, '{"b": [1]}', "[1]")],
    "grammar": [
        (LARK, "x1", "x"),
        (GBNF, "x1", "x"),
        (LLGUIDANCE, "x1", "x"),
        (json.dumps(LLGUIDANCE), "x1", "x"),
        ({"type": "lark", "value": LARK}, "x1", "x"),
    ],
    "structural_tag": [(TAG, "<n>5</n>", "<n>a</n>"), (json.dumps(TAG), "<n>5</n>", "<n>a</n>")],
}
#: Bodies that ask for a constraint, in every form of it, a text of it, and one that is not.
BODIES: list[tuple[Any, str, str]] = [
    *(
        (body, good, bad)
        for field, cases in FIELDS.items()
        for value, good, bad in cases
        for body in ({"structured_outputs": {field: value}}, {"extra_body": {"structured_outputs": {field: value}}})
    ),
    *(({key: value}, good, bad) for key, field in CONSTRAINT_ALIASES.items() for value, good, bad in FIELDS[field]),
    *(
        (body, OBJECT, NOT_OBJECT)
        for body in (
            {"response_format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            {"response_format": SCHEMA},
            {"constraint": json.dumps(SCHEMA), "constraint_type": "json_schema"},
            {"constraint": json.dumps(SCHEMA), "constraint_type": "json"},
            {"constraint": SCHEMA, "constraint_type": "json"},
        )
    ),
    ({"response_format": {"type": "json_object"}}, '{"any": [null]}', "any"),
    ({"text": {"format": {"type": "json_object"}}}, '{"any": [null]}', "any"),
    ({"constraint": "[0-9]{2}"}, "12", "1"),
    ({"constraint": "[0-9]{2}", "constraint_type": "regex"}, "12", "1"),
    ({"constraint": LARK, "constraint_type": "lark"}, "x1", "x"),
]


#: What is no constraint, and how it is refused.
NO_CONSTRAINT: list[tuple[Any, str]] = [
    ({}, "structured_outputs: there is no constraint; expected exactly one of choice, regex, json, json_object, "),
    ({"choice": ["a"], "regex": "a"}, "structured_outputs: 2 constraints at once; expected exactly one of"),
    ({"json_object": False}, "structured_outputs: there is no constraint"),
    ({"choise": ["a"]}, "structured_outputs: unknown key 'choise'; expected exactly one of choice"),
    (5, "structured_outputs: not an object"),
    ("{", "structured_outputs: not JSON"),
    ({"choice": "yes"}, "structured_outputs.choice: str is not a list"),
    ({"choice": ["a", ""]}, r"structured_outputs.choice\[1\]: \"\" is not a text"),
    ({"regex": 5}, "structured_outputs.regex: int is not a pattern"),
    ({"regex": "a("}, "structured_outputs.regex line 1, column 2: missing \\), unterminated"),
    ({"json": 5}, "structured_outputs.json: int is not a schema"),
    ({"json": "{"}, "structured_outputs.json: not JSON: .*line 1 column 2"),
    ({"json_object": 1}, "structured_outputs.json_object: 1 is not true"),
    ({"grammar": " "}, "structured_outputs.grammar: the grammar is empty"),
    ({"grammar": "start: <[5]>"}, r"structured_outputs.grammar line 1, column 8: <\[5\]> writes a token"),
    ({"grammar": {"type": "ebnf", "value": ""}}, "structured_outputs.grammar.type: unknown type 'ebnf'"),
    ({"structural_tag": {}}, "structured_outputs.structural_tag"),
    ({"regex": "a", "whitespace_pattern": " "}, "structured_outputs.whitespace_pattern: ' ' is not supported"),
    ({"regex": "a", "backend": "outlines"}, "structured_outputs.backend: 'outlines' is not supported"),
]


@pytest.mark.parametrize(("body", "good", "bad"), BODIES)
def test_K1_K2_K3_K5_a_constraint_in_every_form(engine: Engine, body: Any, good: str, bad: str):
    plan = plan_for(body, engine)
    assert writes(plan, engine, good)
    assert not writes(plan, engine, bad)


def test_K2_text_is_no_constraint(engine: Engine):
    for body in ({"response_format": {"type": "text"}}, {"text": {"format": {"type": "text"}}}):
        assert plan_for(body, engine).response is None


# -- K3


RAW = {"grammars": [{"name": "top", "lark_grammar": 'start: <think> "n=" /[0-9]{2}/ | "x" <[0-9]>'}]}


@pytest.mark.parametrize("raw", [RAW, json.dumps(RAW), 'start: "n=" <think> /[0-9]{2}/ | "x" <[0-9]>'])
def test_K3_a_trusted_caller_sends_the_engine_s_own_grammar(engine: Engine, raw: Any):
    """Each mask is the one of the engine with the grammar as it was sent, here and after a way through msgpack."""
    body = {"constraint": raw, "constraint_type": "llguidance", "thinking": False}
    plan = plan_for(body, engine, trusted=True)
    assert plan.response.kind == "llguidance"
    text = raw if isinstance(raw, str) else json.dumps(raw)
    for each in (plan, decode_plan(encode_plan(plan))):
        rng, ends = random.Random(7), plan.end_ids()
        for _ in range(6):
            state = GuidanceState(each, engine, entry="after")
            judge = llguidance.LLMatcher(engine.ll_tokenizer, text, log_level=0)
            mask = allocate_bitmask(1, engine.vocab_size)
            for _ in range(12):
                state.fill_bitmask(mask)
                ours = {*allowed_ids(mask[0])}
                raw_ids = {i for i, bias in enumerate(judge.compute_logit_bias()[: engine.vocab_size]) if bias}
                assert ours - ends == raw_ids - ends
                assert bool(ours & ends) == judge.is_accepting()
                if not ours - ends:
                    break
                chosen = rng.choice(sorted(ours - ends))
                state.commit([chosen])
                assert judge.consume_token(chosen)


@pytest.mark.parametrize(("raw", "message"), [(5, "constraint: int is not a grammar"), ("{", "constraint.*: not JSON")])
def test_K3_a_trusted_caller_s_broken_grammar_is_refused(engine: Engine, raw: Any, message: str):
    with pytest.raises(RequestError, match=message):
        plan_for({"constraint": raw, "constraint_type": "llguidance"}, engine, trusted=True)


def test_K3_the_engine_s_own_grammar_is_for_trusted_callers():
    body = {"constraint": RAW, "constraint_type": "llguidance"}
    with pytest.raises(RequestError, match="^constraint_type: .*not trusted; expected regex.*trusted=True.*structured"):
        read_request(body)


# -- K4

SOURCES: dict[str, dict[str, Any]] = {
    "response_format": {"response_format": {"type": "json_object"}},
    "text.format": {"text": {"format": {"type": "json_object"}}},
    "structured_outputs.regex": {"structured_outputs": {"regex": "a"}},
    "constraint": {"constraint": "a"},
    **{key: {key: FIELDS[field][0][0]} for key, field in CONSTRAINT_ALIASES.items()},
}


def test_K4_two_constraints_are_refused_wherever_they_stand():
    for first, body in SOURCES.items():
        assert read_request(body).source == first
        for second, more in SOURCES.items():
            if first != second:
                with pytest.raises(RequestError, match="2 constraints at once; expected exactly one") as caught:
                    read_request({**body, "extra_body": more})
                assert {first, second} == set(caught.value.place.split(" and "))


# -- K5


@pytest.mark.parametrize(
    "key", ["guided_jsn", "guided_whitespace_pattern", "guided_options_request", "constraints", "json_schemas"]
)
def test_K5_a_constraint_that_no_one_knows_is_never_ignored(key: str):
    for lenient in (False, True):
        with pytest.raises(RequestError, match=key):
            read_request({key: "x"}, ignore_unknown=lenient)


# -- K9, as amended: nothing is stripped from a schema; null is a type that a union names


class Nicknamed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    name: str
    nick: str | None
    age: int | None


#: As OpenAI's strict mode writes an optional member, and as pydantic does.
OPTIONAL = closed(
    {
        "name": {"type": "string"},
        "nick": {"type": ["string", "null"]},
        "age": {"type": ["integer", "null"]},
    }
)


@pytest.mark.parametrize("schema", [OPTIONAL, Nicknamed.model_json_schema()], ids=["openai strict", "pydantic"])
def test_K9_null_in_required_members_is_kept(engine: Engine, schema: Any):
    plan = plan_for({"structured_outputs": {"json": schema}}, engine)
    assert not plan.schema_report.relaxed
    judge = jsonschema.Draft202012Validator(schema)
    for values in itertools.product(["a", None, 5, ...], repeat=3):
        value = {key: v for key, v in zip(("name", "nick", "age"), values, strict=True) if v is not ...}
        assert writes(plan, engine, json.dumps(value)) == judge.is_valid(value), value


def test_K9_an_unknown_format_is_an_annotation_and_is_reported(engine: Engine):
    schema = {"type": "string", "format": "postcode-of-nowhere"}
    plan = plan_for({"structured_outputs": {"json": schema}}, engine)
    assert writes(plan, engine, '"any"')
    assert [row.keyword for row in plan.schema_report.rows] == ["format"]
    assert plan.notes == (
        "format at the root: 'postcode-of-nowhere' is not a format of JSON Schema: an annotation, not enforced",
    )
    usage, guidance = Usage(), Guidance()
    assert MessageBuilder(plan).message(ended=True, usage=usage, guidance=guidance).notes == plan.notes


def test_K9_each_unknown_format_is_one_note(engine: Engine):
    formats = {"a": "int64", "b": "int64", "c": "email", "d": "money"}
    named = {key: {"type": "string", "format": name} for key, name in formats.items()}
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"p": {"type": "number", "format": "float"}}}}
    plan = plan_for(
        {
            "structured_outputs": {"json": {"type": "object", "properties": named}},
            "tools": [{"type": "function", "function": tool}],
        },
        engine,
    )
    starts = [note.split(" is not a format")[0] for note in plan.notes]
    assert starts == [
        "format at /properties/a and 1 more: 'int64'",
        "format at /properties/d: 'money'",
        "format at /tools/f/parameters/properties/p: 'float'",
    ]
    many = {str(i): {"format": f"format-{i}"} for i in range(60)}
    plan = plan_for({"structured_outputs": {"json": {"type": "object", "properties": many}}}, engine)
    assert len(plan.notes) == 11
    assert plan.notes[-1] == "50 more formats: see the report"
    known = plan_for({"structured_outputs": {"json": {"type": "string", "format": "date"}}}, engine)
    assert known.notes == ()


# -- tools


@pytest.mark.parametrize(
    ("body", "good", "bad"),
    [
        ({"tools": TOOLS}, ["text", CALL, f"{CALL}\n{CALL_G}"], []),
        ({"tools": TOOLS, "tool_choice": "required"}, [CALL, CALL_G], ["text", f"{CALL}\n{CALL_G}"]),
        ({"tools": TOOLS, "tool_choice": "f"}, [CALL], ["text", CALL_G, f"{CALL}\n{CALL}"]),
        (
            {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": True},
            [CALL, CALL_G, f"{CALL}\n{CALL_G}"],
            ["text"],
        ),
        ({"tools": TOOLS, "tool_choice": "none"}, ["text"], [CALL]),
        ({"tools": TOOLS, "tool_choice": G}, [CALL_G], ["text", CALL]),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "g"}}, [CALL_G], ["text", CALL]),
        ({"tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": False}, ["text", CALL], [f"{CALL}\n{CALL_G}"]),
        (
            {
                "tools": TOOLS,
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [G]}},
            },
            [CALL_G],
            ["text", CALL],
        ),
        (
            {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [G]}},
            ["text", CALL_G],
            [CALL],
        ),
        ({"tools": [{"type": "function", **FUNCTION}]}, ["text", CALL], [CALL_G]),
        ({"functions": [FUNCTION], "function_call": {"name": "f"}}, [CALL], ["text"]),
    ],
)
def test_tools_and_their_choice(engine: Engine, body: Any, good: list[str], bad: list[str]):
    plan = plan_for(body, engine)
    assert all(writes(plan, engine, text) for text in good)
    assert not any(writes(plan, engine, text) for text in bad)


# -- effort, thinking, limits, sampling


def test_effort_of_both_apis_and_the_switch(engine: Engine):
    for body in (
        {"reasoning_effort": "low"},
        {"reasoning": {"effort": "low"}},
        {"extra_body": {"reasoning_effort": "LOW"}},
    ):
        assert plan_for(body, engine).reasoning.effort == "low"
    assert plan_for({"reasoning": {"effort": "low", "summary": "auto"}}, engine).ignored == ("reasoning.summary",)
    for body in (
        {"thinking": False},
        {"enable_thinking": False},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"thinking": {"type": "disabled"}},
    ):
        plan = plan_for({"reasoning_effort": "high", **body}, engine)
        assert not plan.reasoning.applied
        assert dict(plan.template_kwargs) == {"enable_thinking": False}


def test_limits_stops_and_sampling_are_handed_on():
    request = read_request(
        {
            "model": "m", "messages": [], "stop": ["a", "b"], "stop_token_ids": [3], "max_completion_tokens": 9,
            "temperature": 0.5, "top_p": 0.9, "seed": 7, "n": 2, "logprobs": True, "top_logprobs": 3,
            "logit_bias": {"17": -5}, "user": "u", "store": True,
        }
    )  # fmt: skip
    parts = request.parts
    assert (parts.stop.strings, parts.stop.ids, parts.max_tokens) == (("a", "b"), (3,), 9)
    expected = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "n": 2, "logprobs": 3, "logit_bias": {17: -5}}
    assert request.sampling == expected
    assert Sampling(**request.sampling).n == 2
    assert parts.ignored == ("user", "store")
    assert request.prompt == {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        *(({"structured_outputs": value}, message) for value, message in NO_CONSTRAINT),
        (
            {"response_format": {"type": "xml"}},
            "response_format.type: unknown type 'xml'; expected text, structural_tag, json_object or json_schema",
        ),
        (
            {"response_format": {"type": "json_schema"}},
            r'response_format.json_schema: there is no schema; expected \{"name"',
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            "response_format.json_schema: there is no schema",
        ),
        ({"response_format": {}}, "response_format: there is no type"),
        ({"response_format": "json"}, "response_format: 'json' is not a response format"),
        ({"response_format": {"type": "text", "strict": True}}, "response_format: unknown key 'strict'"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type: unknown type 'xml'"),
        ({"text": {"fmt": {}}}, "text: unknown key 'fmt'; expected format"),
        ({"text": {"verbosity": "lots"}}, "text.verbosity: 'lots' is unknown; expected low, medium or high"),
        ({"constraint": "{", "constraint_type": "json"}, "constraint: not JSON: .*line 1 column 2"),
        ({"constraint": "[1]", "constraint_type": "json_schema"}, "constraint: list is not a schema"),
        ({"constraint": "a", "constraint_type": "xml"}, "constraint_type: unknown type 'xml'; expected regex, lark, "),
        ({"constraint_type": "lark"}, "constraint: there is no constraint"),
        ({"constraint": 5}, "constraint.*: int is not a pattern"),
        ({"constraint": "start: (", "constraint_type": "lark"}, "constraint.* line 1, column 9: the grammar ends too"),
        (None, "body: NoneType is not a request; expected an object"),
        ([], "body: list is not a request"),
        ({"temprature": 1}, r"temprature: unknown key \(is it 'temperature'\?\)"),
        ({"verbosity": 3}, "verbosity: 3 is unknown; expected low, medium or high"),
        (
            {"verbosity": "low", "text": {"verbosity": "high"}},
            "verbosity and text.verbosity: 'low' and 'high' at once",
        ),
        ({"audio": {}}, r"audio: \{\} is not supported; expected no such key"),
        ({"best_of": True}, "best_of: True is not supported; expected 1"),
        ({"ignore_eos": True}, "ignore_eos: True is not supported; expected False"),
        ({"extra_body": 5}, "extra_body: not an object"),
        ({"seed": 1, "extra_body": {"seed": 2}}, "extra_body: 'seed' is in the body as well"),
        ({"extra_body": {"extra_body": {"regex": "a"}}}, "extra_body.extra_body: an extra_body of its own"),
        ({"reasoning_effort": "lots"}, "reasoning_effort: unknown level 'lots'; expected none, minimal, low"),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, ".*effort: 'low' and 'high' at once"),
        ({"reasoning": {"max_tokens": 5}}, "reasoning: unknown key 'max_tokens'; expected effort"),
        ({"reasoning": "low"}, "reasoning: not an object"),
        ({"thinking": "yes"}, "thinking: 'yes' is not true or false"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking.budget_tokens: a budget of its own"),
        ({"thinking": True, "enable_thinking": False}, "thinking and enable_thinking: true and false at once"),
        ({"chat_template_kwargs": {"custom": 1}}, "chat_template_kwargs.custom: a plan passes the template's switches"),
        ({"stop": 5}, "stop: 5 is not a stop sequence"),
        ({"stop": [""]}, "stop: .* is not a stop sequence"),
        ({"stop_token_ids": ["a"]}, "stop_token_ids: .* is not a list of ids"),
        ({"max_tokens": 0}, "max_tokens: 0 is out of range; expected an integer of 1 or more"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens and max_completion_tokens: 5 and 6 at once"),
        ({"top_logprobs": 3}, "top_logprobs: top_logprobs without logprobs"),
        ({"logit_bias": {"a": 1}}, "logit_bias: .* is not a map; expected token id -> number"),
        ({"temperature": -1}, "temperature: -1 is out of range"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls: 'no' is not true or false"),
        (
            {"return_hidden_states": "first"},
            "return_hidden_states: 'first' is not a choice; expected true, false or last",
        ),
        ({"return_hidden_states": 1}, "return_hidden_states: 1 is not a choice"),
        ({"schema_policy": "lax"}, "schema_policy: 'lax' is unknown; expected warn or strict"),
        ({"landing": "no"}, "landing: 'no' is not true or false"),
        ({"short_budget": True}, "short_budget: True is unknown; expected cut or error"),
        ({"reasoning_preset": "x"}, "reasoning_preset: unknown preset 'x'; expected native or structured"),
        ({"tools": TOOLS, "functions": []}, "functions: tools are there as well"),
        ({"functions": 5}, "functions: not a list; expected a list"),
        ({"tools": TOOLS, "tool_choice": "f", "function_call": "f"}, "function_call: tool_choice is there as well"),
        ({"tool_choice": "required"}, "tool_choice: 'required' without tools"),
        ({"temperature": 10**400}, r"temperature: 10+\.\.\. is out of range"),
        ({"top_p": 10**400}, r"top_p: 10+\.\.\. is out of range"),
        ({"presence_penalty": -(10**400)}, r"presence_penalty: -10+\.\.\. is out of range"),
        ({"seed": 10**6_000}, "seed: a number of more than 1000 digits"),
        ({"logit_bias": {"5": 10**400}}, r"logit_bias\[5\]: 10+\.\.\. is out of range"),
        ({"logit_bias": {"100000": 1.0}}, "logit_bias: 100000 is not a token of this model; expected ids from 0 to"),
        ({"logit_bias": {"-1": 1.0}}, "logit_bias: -1 is not a token of this model"),
        ({"text": {"format": {}}}, 'text.format: there is no type; expected {"type": ...}'),
        ({"grammar": {"type": ["x"], "value": "a"}}, r"grammar.type: unknown type \['x'\]"),
        ({"stop": DEEP}, "stop: nested more than 700 deep"),
        ({"structural_tag": {"tag": "a", "start_tag": "<b>"}}, "structural_tag: tag and start_tag both give"),
    ],
)
def test_K1_K2_K3_what_cannot_be_read_is_named(engine: Engine, body: Any, message: str):
    with pytest.raises(RequestError, match=f"^{message}"):
        plan_for(body, engine)


def test_keys_that_change_nothing_are_listed():
    neutral = {key: values[0] for key, values in UNSUPPORTED.items() if values}
    assert set(read_request(neutral | dict.fromkeys(HARMLESS, "x")).parts.ignored) == {*neutral, *HARMLESS}
    assert read_request({"who_knows": 1}, ignore_unknown=True).parts.ignored == ("who_knows",)
    assert read_request({"chat_template_kwargs": {"enable_thinking": None}}).parts.thinking is None
    assert read_request(dict.fromkeys((*UNSUPPORTED, *GUIDANCE, *SAMPLING), None)).parts.ignored == ()


def test_hidden_states_are_asked_for():
    for value, wanted in ((True, True), ("last", True), (False, False), (None, False)):
        assert read_request({"return_hidden_states": value}).return_last_hidden_state is wanted
    assert not read_request({}).return_last_hidden_state


def test_no_key_is_in_two_tables():
    tables = (PROMPT, GUIDANCE, CONSTRAINT_ALIASES, SAMPLING, HARMLESS, UNSUPPORTED)
    keys = [key for table in tables for key in table]
    assert len(keys) == len(set(keys))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["auto", "json_schema", LARK]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "name", "schema", "effort", "format", "function", "regex", "choice", "json", "x"]),
        inner,
        max_size=3,
    ),
    max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from([*GUIDANCE, *CONSTRAINT_ALIASES, *SAMPLING, *UNSUPPORTED]), JSON, max_size=3))
def test_any_body_is_read_or_refused_with_a_typed_error(engine: Engine, body: dict[str, Any]):
    try:
        request = read_request(body)
        Sampling(**request.sampling)
        compose(request.parts, tokens=engine.tokens, format=FORMAT)
    except GuidedError as error:
        assert str(error)
