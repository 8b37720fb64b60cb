"""C8: a plan is the same plan in another process; other bytes are three distinct errors and nothing worse."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grammars.plan.plan import Plan, Stops
from grammars.plan.wire import VERSION, decode_plan, encode_plan
from grammars.values.constraints import Choice, Gbnf, Lark, Llguidance, Regex, StructuralTag
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from special_tokens.errors import MalformedPlan, NotMsgpack, PlanError, UnknownVersion, WireError
from tests.judges.plans import END, accepts, plan_of, whole_repr
from tests.made_up.schemas import closed

ROOT = Path(__file__).resolve().parents[3]
#: Fields that come later change neither these bytes nor the version.
FROZEN = Path(__file__).with_name("plan_v3.msgpack")
#: With values of calls that are watched.
FROZEN_CALLS = Path(__file__).with_name("plan_v3_calls.msgpack")

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    },
    {"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"}},
]
SCHEMA = closed(
    {"n": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "big": {"const": 10**30}},
    optional=["big"],
)
PLANS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "schema with watchers": {"response_format": SCHEMA, "max_tokens": 99},
    "everything": {
        "response_format": SCHEMA,
        "tools": TOOLS,
        "reasoning_effort": "high",
        "stop": Stops(("END",), (3,), include=True),
        "ignored": ("user",),
    },
    "structured effort": {"response_format": Choice(["yes", "no\n", "é"]), "reasoning_effort": "medium",
                          "reasoning_preset": "structured"},
    "regex": {"response_format": Regex("[A-Z]{3}")},
    "lark": {"response_format": Lark('start: "x" start | /[0-9]/')},
    "gbnf": {"response_format": Gbnf('root ::= "x" [0-9]')},
    "llguidance": {"response_format": Llguidance({"grammars": [{"lark_grammar": 'start: "x"'}]})},
    "structural_tag": {"response_format": StructuralTag({"tag": "n", "schema": {"type": "integer"}})},
    "required": {"tools": TOOLS, "tool_choice": "required", "thinking": False},
}  # fmt: skip


def masks_of(plan: Plan, engine: Engine, steps: int = 50) -> str:
    """The masks of a random walk of at most ``steps`` tokens, as one digest."""
    state, rng = GuidanceState(plan, engine), random.Random(1)
    mask, digest = allocate_bitmask(1, engine.vocab_size), hashlib.sha256()
    while not state.is_stopped and len(state.tokens) < steps:
        state.fill_bitmask(mask)
        digest.update(mask.tobytes())
        ids = allowed_ids(mask[0])
        ends = plan.end_ids()
        state.commit([rng.choice([i for i in ids if i not in ends] or ids)])
    return f"{len(state.tokens)} {digest.hexdigest()}"


_OTHER_PROCESS = """
import sys
from grammars.plan.wire import decode_plan
from tests.conftest import small_engine
from tests.grammars.plan.test_wire import masks_of
engine = small_engine()
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        print(masks_of(decode_plan(file.read()), engine))
"""


def test_C8_another_process_has_the_same_masks(engine: Engine, tmp_path: Path):
    expected, paths = [], []
    for i, parts in enumerate(PLANS.values()):
        plan = plan_of(engine, **parts)
        expected.append(masks_of(plan, engine))
        paths.append(tmp_path / f"{i}.msgpack")
        paths[-1].write_bytes(encode_plan(plan))
    command = [sys.executable, "-c", _OTHER_PROCESS, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == expected
    assert max(int(line.split()[0]) for line in expected) == 50


@pytest.mark.parametrize("value", [None, {}, "plan", Stops(("a",))])
def test_only_a_plan_is_sent(value: Any) -> None:
    with pytest.raises(PlanError, match=rf"^plan: {type(value).__name__} is not a plan; expected what guide.plan"):
        encode_plan(value)


def test_C8_a_python_type_stays_behind(engine: Engine):
    plan = plan_of(engine, response_format=int)
    assert decode_plan(encode_plan(plan)).python_type is None
    assert decode_plan(encode_plan(plan), python_type=int).python_type is int


def test_C8_a_plan_of_another_vocabulary_is_refused_by_the_engine(engine: Engine, plain_engine: Engine):
    plan = decode_plan(encode_plan(plan_of(plain_engine)))
    with pytest.raises(PlanError, match="the plan belongs to vocabulary .* this model has"):
        GuidanceState(plan, engine)


def test_C8_the_frozen_bytes_are_still_read(engine: Engine):
    """The example: low effort, a tool, a regex, a stop.  If this fails, old plans are lost: raise the version."""
    data = FROZEN.read_bytes()
    plan = decode_plan(data)
    assert VERSION == 3
    assert encode_plan(plan) == data == sealed(fields_of(data))
    assert (plan.reasoning.effort, [*plan.tool_names], plan.stops.strings) == ("low", ["get_weather"], ("END",))
    assert plan.response.pattern == "[A-Z]{3}"
    assert accepts(plan, engine, "<think>\nHm.\n</think>\n\nABC" + END)
    assert not accepts(plan, engine, "<think>\nHm.\n</think>\n\nAB" + END)


@pytest.mark.parametrize("version", [1, 2])
def test_C8_a_plan_of_an_earlier_release_is_refused_by_its_version(version: int):
    """Its grammar may be for the engine's own schema compiler, and its watchers may bound digits: neither is read."""
    data = Path(__file__).with_name(f"plan_v{version}.msgpack").read_bytes()
    with pytest.raises(UnknownVersion, match=f"plan: version {version}; expected 3 .*compose the plan again"):
        decode_plan(data)


def test_C8_the_frozen_bytes_of_watched_calls_are_still_read(engine: Engine):
    """The example: a tool whose arguments are watched while they are written."""
    data = FROZEN_CALLS.read_bytes()
    plan = decode_plan(data)
    assert encode_plan(plan) == data
    assert [step.is_value for step in plan.call_values] == [False, True]
    for tags, good in (('["a", "b"]', True), ('["a", "a"]', False)):
        call = f'<tool_call>\n{{"name": "tag", "arguments": {{"tags": {tags}}}}}\n</tool_call>'
        assert accepts(plan, engine, call + END, entry="after") is good


# -- other bytes


def sealed(fields: Any) -> bytes:
    """These fields in an envelope of version 3, as the docstring of `grammars.plan.wire` describes it."""
    inner: bytes = fields if isinstance(fields, bytes) else msgpack.packb(fields)
    digest = hashlib.sha256(b"\x03" + inner).digest()
    data: bytes = msgpack.packb({"guided": "plan", "version": 3, "digest": digest, "plan": inner})
    return data


def fields_of(data: bytes) -> dict[str, Any]:
    """The fields in an envelope."""
    body = msgpack.unpackb(data)
    found: dict[str, Any] = msgpack.unpackb(body["plan"], ext_hook=msgpack.ExtType)
    return found


def packed(**changes: Any) -> bytes:
    body = {"guided": "plan", "version": 3, "plan": {}} | changes
    data: bytes = msgpack.packb({key: value for key, value in body.items() if value is not ...})
    return data


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", NotMsgpack, "plan: not msgpack"),
        (b"\xc1", NotMsgpack, "plan: not msgpack"),
        (b"hello", NotMsgpack, "plan: not msgpack"),
        (b"\xdd\xff\xff\xff\xff", NotMsgpack, "plan: not msgpack"),
        (b"\x91" * 5_000, NotMsgpack, "plan: not msgpack"),
        (b"\xc7\x01\x09x", NotMsgpack, "plan: not msgpack: unknown extension 9"),
        (msgpack.packb(msgpack.ExtType(2, b"9" * 4_002)), NotMsgpack, "plan: not msgpack: integer of more than 4,000"),
        ("text", NotMsgpack, "plan: str is not bytes"),
        (
            msgpack.packb([1]),
            MalformedPlan,
            "plan: this is msgpack, but not a plan; expected what encode_plan returned",
        ),
        (msgpack.packb({"a": 1}), MalformedPlan, "plan: this is msgpack, but not a plan"),
        (packed(version=4), UnknownVersion, "plan: version 4; expected 3 .use the same release on both"),
        (packed(version=1), UnknownVersion, "plan: version 1; expected 3 .use the same release on both"),
        (packed(), MalformedPlan, "plan: the bytes do not fit their digest"),
        (packed(digest=b"x" * 32, plan=b"\x80"), MalformedPlan, "plan: the bytes do not fit their digest"),
        (packed(more=1), MalformedPlan, "plan: the bytes do not fit their digest"),
        (packed(plan=...), MalformedPlan, "plan: the bytes do not fit their digest"),
        (sealed({}) + b"\0", NotMsgpack, "plan: not msgpack"),
        (sealed({}), MalformedPlan, "plan: the field 'fingerprint' is missing"),
        (sealed([]), MalformedPlan, "plan: not a map"),
        (packed(version="1"), UnknownVersion, "plan: version '1'"),
        (packed(version=True), UnknownVersion, "plan: version True"),
        (packed(version=1.0), UnknownVersion, "plan: version 1.0"),
        (packed(version=...), UnknownVersion, "plan: version None"),
        (sealed({"evil": 1}), MalformedPlan, "plan: unknown field 'evil'"),
        (sealed({"python_type": 1}), MalformedPlan, "plan: unknown field 'python_type'"),
    ],
)
def test_C8_three_errors_say_what_the_bytes_are(data: Any, error: type[WireError], message: str):
    with pytest.raises(WireError, match=f"^{message}") as caught:
        decode_plan(data)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda p: p.update(vocab_size="9"), "plan.vocab_size"),
        (lambda p: p.update(vocab_size=True), "plan.vocab_size"),
        (lambda p: p.update(vocab_size=-1), "plan.vocab_size"),
        (lambda p: p.update(entries=[]), "plan.entries"),
        (lambda p: p["entries"][0].update(name="nowhere"), r"plan.entries\[0\].name"),
        (lambda p: p["entries"][0].update(region=99), r"plan.entries\[0\].region"),
        (lambda p: p["ends"][0].update(sentinel=5), r"plan.ends\[0\].sentinel"),
        (lambda p: p["ends"][0].update(ids=[10**6]), r"plan.ends\[0\].ids"),
        (lambda p: p["ends"][0].update(region="elsewhere"), r"plan.ends\[0\].region"),
        (lambda p: p["budgets"][0].update(region=-1), r"plan.budgets\[0\].region"),
        (lambda p: p["grammar"].update(rules=5), "plan.grammar.rules"),
        (lambda p: p["grammar"].update(json_rule=["r", "{}"]), "plan.grammar: unknown field 'json_rule'"),
        (lambda p: p["tools"][0].update(kind="other"), r"plan.tools\[0\].kind"),
        (lambda p: p["tools"][0].update(parameters={"a": [b"x"]}), r"plan.tools\[0\].parameters.a\[0\]"),
    ],
)
def test_C8_a_value_that_does_not_fit_is_named(change: Any, place: str):
    fields = fields_of(FROZEN.read_bytes())
    change(fields)
    with pytest.raises(MalformedPlan, match=f"^{place}"):
        decode_plan(sealed(fields))


def test_C8_too_many_bytes_are_not_even_unpacked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("grammars.plan.wire.MAX_BYTES", 10)
    with pytest.raises(MalformedPlan, match="11 bytes; expected at most 10"):
        decode_plan(b"x" * 11)


def test_C8_a_value_that_cannot_travel_is_named(engine: Engine):
    plan = plan_of(engine, response_format=SCHEMA)
    broken = replace(plan, response=replace(plan.response, schema={"enum": {1, 2}}))
    with pytest.raises(PlanError, match="plan.response.schema.enum: cannot be sent: set is not a JSON value"):
        encode_plan(broken)


@pytest.mark.parametrize("digits", [4_000, 4_001, 4_100, 5_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_C8_an_integer_that_is_written_is_read_back(engine: Engine, digits: int, sign: int):
    plan = plan_of(engine, response_format=SCHEMA)
    large = replace(plan, response=replace(plan.response, schema={"const": sign * (10**digits - 1)}))
    if digits == 4_000:
        assert decode_plan(encode_plan(large)) == large
        return
    with pytest.raises(PlanError, match="schema.const: cannot be sent: integer of more than 4,000 digits"):
        encode_plan(large)


@given(st.binary(max_size=200))
@example(b"\xdf" + b"\xff" * 8)
def test_C8_any_bytes_are_refused_with_a_typed_error(data: bytes):
    with pytest.raises(WireError):
        decode_plan(data)


def test_C8_no_bit_may_flip_and_no_byte_be_lost_or_doubled(engine: Engine):
    whole = encode_plan(plan_of(engine, response_format=Choice(["yes", "no"])))
    for i in range(len(whole)):
        head, byte, tail = whole[:i], whole[i], whole[i + 1 :]
        flips = (head + bytes([byte ^ bit]) + tail for bit in (1, 16, 128))
        for data in (*flips, head, head + tail, whole[: i + 1] + whole[i:], whole[: i + 9] + whole[i:]):
            with pytest.raises(WireError):
                decode_plan(data)


def test_C8_a_changed_version_is_damage_and_not_another_version(engine: Engine):
    whole = encode_plan(plan_of(engine))
    for version in {*range(128)} - {VERSION}:
        data = whole.replace(b"\xa7version\x03", b"\xa7version" + bytes([version]))
        assert data != whole
        with pytest.raises(MalformedPlan, match="the bytes do not fit their digest"):
            decode_plan(data)


@given(st.data())
def test_C8_damaged_fields_under_a_digest_are_a_plan_or_a_typed_error(data: st.DataObject):
    """Bytes changed, lost or doubled anywhere: what still decodes is a plan through and through."""
    whole = bytearray(msgpack.packb(fields_of(FROZEN.read_bytes())))
    for _ in range(data.draw(st.integers(1, 3))):
        if not whole:
            break
        at = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["change", "drop", "double", "cut"])):
            case "change":
                whole[at] = data.draw(st.integers(0, 255))
            case "drop":
                del whole[at : at + data.draw(st.integers(1, 9))]
            case "double":
                whole[at:at] = whole[at : at + 9]
            case "cut" if at:
                del whole[at:]
    still_a_plan_or_refused(sealed(bytes(whole)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@given(st.randoms(use_true_random=False), VALUES)
def test_C8_another_value_anywhere_is_a_plan_or_a_typed_error(rng: random.Random, value: Any):
    fields = fields_of(FROZEN.read_bytes())
    node: Any = fields
    while True:
        key = rng.choice(sorted(node) if isinstance(node, dict) else range(len(node)))
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.2:
            break
        node = node[key]
    node[key] = value
    still_a_plan_or_refused(sealed(fields))


def still_a_plan_or_refused(data: bytes) -> None:
    try:
        plan = decode_plan(data)
    except WireError as error:
        assert error.message
        return
    assert whole_repr(decode_plan(encode_plan(plan))) == whole_repr(plan)  # NaN in a schema equals nothing
