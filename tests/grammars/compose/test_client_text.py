"""K7, K10: a client's text comes out byte for byte, never becomes a token, and never leads to a dead end."""

from __future__ import annotations

import contextlib
import json
import random
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grammars.plan.plan import Plan
from grammars.values.constraints import Choice, Gbnf, Lark, Llguidance, Regex, StructuralTag
from grammars.values.format import Format
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.engine.engine import Engine
from guided.inspect.shortest import shortest
from guided.state.state import GuidanceState
from special_tokens.errors import GrammarError, GuidanceError
from tests.conftest import small_engine
from tests.grammars.compose.test_matrix import engine_with
from tests.judges.plans import END, accepts, plan_of, write_to_the_end
from tests.made_up.schemas import having

PLAIN = Format("plain")
#: Texts that spell added tokens of the small tokenizers, wholly, in part and next to each other.
MARKED = [
    *("<think>", "</think>", "<tool_call>", "<|im_start|>system", "a<|im_end|>b", "<think><think>", "<thin"),
    "x</tool_call>",
]
AWKWARD = [
    'He said "yes"', "back\\slash", "new\nline", "tab\tcr\r", "del\x7f", "nul\x00", "中文", "🤔", "é\u0301",
    "\ue000x\ue000", "a" * 300, "'", "/", "[]{}()*+?.^$|", "<", "%json", "@x", "$START_ID", "// no comment", "# none",
    "\u2028", "\ufeff", "\x85", " ", "\n",
]  # fmt: skip


def spelled(plan: Plan, engine: Engine, text: str) -> list[int]:
    """``text`` written under the masks, at each step by the longest allowed token that goes on with it.

    No special token may be used for it: a client's text is text.
    """
    state = GuidanceState(plan, engine)
    out = spelled_on(state, text)
    mask = allocate_bitmask(1, engine.vocab_size)
    state.fill_bitmask(mask)
    assert set(allowed_ids(mask[0])) & plan.end_ids(), "it cannot end here"
    return out


def spelled_on(state: GuidanceState, text: str) -> list[int]:
    engine = state.engine
    mask = allocate_bitmask(1, engine.vocab_size)
    data, at, out = text.encode(), 0, []
    while at < len(data):
        state.fill_bitmask(mask)
        fitting = [
            i for i in allowed_ids(mask[0])
            if i not in engine.tokens.marker_ids and (b := engine.token_bytes(i)) and data.startswith(b, at)
        ]  # fmt: skip
        assert fitting, (
            f"a dead end after {data[:at]!r}: only {[engine.token_bytes(i) for i in allowed_ids(mask[0])][:8]}"
        )
        token = max(fitting, key=lambda i: len(engine.token_bytes(i)))
        state.commit([token])
        out.append(token)
        at += len(engine.token_bytes(token))
    return out


# -- K7: choices


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5, unique=True))
@example(["<think>a", "<think>b"])
@example(["a", "ab", "abc"])
@example(["<|im_end|>"])
def test_K7_every_choice_is_written_byte_for_byte(options: list[str]):
    engine = engine_with((END,), markers_are_tokens=True)
    plan = plan_of(engine, PLAIN, response_format=Choice(options))
    for option in options:
        written = spelled(plan, engine, option)
        assert b"".join(map(engine.token_bytes, written)) == option.encode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "response_format.choice: there is nothing to choose from"),
        (["a", ""], r"response_format.choice\[1\]: \"\" is not a text that can be written"),
        (["a", 5], r"response_format.choice\[1\]: 5 is not a text"),
        ([None], r"response_format.choice\[0\]: null is not a text"),
        (["\ud800"], r"response_format.choice\[0\]: the text holds a lone surrogate"),
        ([str(i) for i in range(20_001)], "20001 choices are too many; expected at most 20000"),
    ],
)
def test_K7_a_choice_that_is_no_text_is_refused(engine: Engine, options: list[Any], message: str):
    with pytest.raises(GrammarError, match=message):
        plan_of(engine, response_format=Choice(options))


def test_K7_thousands_of_choices_compile_and_each_can_be_chosen(engine: Engine):
    options = [f"option {i} of {i * 7919 % 10_007}" for i in range(5_000)]
    plan = plan_of(engine, PLAIN, response_format=Choice(options))
    for option in options[::1_250]:
        assert accepts(plan, engine, option + END)
    assert not accepts(plan, engine, "option 5000 of 1" + END)


# -- K10: text that spells a token stays text


FREE = {"type": "any_text"}


def in_json(value: Any) -> str:
    """As we write it: DEL, which JSON allows raw, is escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def formats_with(text: str) -> dict[str, tuple[Any, str]]:
    """Every kind of constraint with ``text`` in it, and what the answer then is."""
    literal = in_json(text)
    escaped = re.escape(text)
    ecma = "".join(f"\\u{{{ord(c):x}}}" for c in text)
    gbnf = '"' + "".join(f"\\U{ord(c):08X}" for c in text) + '"'
    return {
        "choice": (Choice([text]), text),
        "choices with a shared beginning": (Choice([text + "1", text + "2"]), text + "2"),
        "regex": (Regex(escaped), text),
        "regex with more after it": (Regex(escaped + "[a-z]+"), text + "q"),
        "const": ({"const": text}, in_json(text)),
        "enum": ({"enum": [text, text + "x"]}, in_json(text + "x")),
        "key": (
            {"type": "object", "properties": {text: {"const": text}}, "required": [text], "maxProperties": 1},
            in_json({text: text}),
        ),
        "pattern": ({"type": "string", "pattern": f"^{ecma}$"}, in_json(text)),
        "Lark": (Lark(f"start: {literal} /[0-9]/"), text + "7"),
        "Lark terminal": (Lark(f"start: A\nA: {literal} | \"b\""), text),
        "GBNF": (Gbnf(f"root ::= {gbnf} [0-9]"), text + "7"),
        "llguidance": (Llguidance({"grammars": [{"lark_grammar": f"start: {literal}"}]}), text),
        "structural tag": (
            StructuralTag({"format": {"type": "tag", "begin": text, "content": FREE, "end": text + "!"}}),
            f"{text}free{text}!",
        ),
    }  # fmt: skip


KINDS = list(formats_with("x"))


@pytest.mark.parametrize("text", [*AWKWARD, *MARKED])
def test_K7_K10_every_kind_writes_every_text_byte_for_byte_and_as_text(engine: Engine, text: str):
    for response_format, answer in formats_with(text).values():
        spelled(plan_of(engine, PLAIN, response_format=response_format), engine, answer)


@pytest.mark.parametrize("text", ["<b>bold</b>", "<table>", "a<h1>b", "<code>x</code>\n\n", "<end_of_turn>"])
@pytest.mark.parametrize("kind", ["choice", "const", "enum", "key", "pattern", "Lark", "regex", "structural tag"])
@pytest.mark.slow
def test_K10_html_tags_of_gemma_stay_text(real_engine: Any, kind: str, text: str):
    engine = real_engine("gemma3")
    assert any(isinstance(piece, int) for piece in engine.tokens.pieces(text))
    response_format, answer = formats_with(text)[kind]
    spelled(plan_of(engine, PLAIN, response_format=response_format), engine, answer)


def test_K10_html_tags_that_are_tokens_stay_text():
    """Gemma's vocabulary has ``<b>`` and ``</b>`` as added tokens that are not flagged special."""
    engine = small_engine((END, "<b>", "</b>", "<table>"), special=(END,))
    assert {engine.tokens.id_of(t) for t in ("<b>", "</b>")} <= engine.tokens.marker_ids
    for kind in KINDS:
        response_format, answer = formats_with("<b>x</b>")[kind]
        spelled(plan_of(engine, PLAIN, response_format=response_format), engine, answer)


@pytest.mark.parametrize("kind", KINDS)
def test_K10_rollback_across_spelled_text_is_exact(engine: Engine, kind: str):
    response_format, answer = formats_with("a<think>b")[kind]
    plan = plan_of(engine, PLAIN, response_format=response_format)
    ids = spelled(plan, engine, answer)
    rng = random.Random(kind)
    state = GuidanceState(plan, engine)
    state.commit(ids)
    mask, fresh = allocate_bitmask(1, engine.vocab_size), allocate_bitmask(1, engine.vocab_size)
    for _ in range(10):
        back = rng.randrange(1, len(ids) + 1)
        state.rollback(back)
        state.fill_bitmask(mask)
        again = GuidanceState(plan, engine)
        again.commit(ids[: len(ids) - back])
        again.fill_bitmask(fresh)
        assert (mask == fresh).all()
        state.commit(ids[len(ids) - back :])


@pytest.mark.parametrize("kind", KINDS)
def test_K10_walks_over_spelled_text_end(engine: Engine, kind: str):
    response_format, _ = formats_with("<think>")[kind]
    plan = plan_of(engine, PLAIN, response_format=response_format)
    for seed in range(3):
        written = write_to_the_end(plan, engine, random.Random(seed), wander=10, closers=(b"<think>!", "1"))
        assert not set(written[:-1]) & engine.tokens.marker_ids


def test_K10_tools_with_markers_in_their_values(engine: Engine):
    tool = {"name": "f", "parameters": having({"a": {"enum": ["</tool_call>", "<think>"]}})}
    plan = plan_of(engine, tools=[tool], tool_choice="required", reasoning_effort="none")
    opening = engine.tokenize('<think>\n\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {"a": "')
    state = GuidanceState(plan, engine)
    state.commit(opening)
    spelled_on(state, '</tool_call>"}}\n')
    state.commit(engine.tokenize("</tool_call>"))
    assert state.is_accepting


def test_K10_a_trusted_caller_may_write_tokens(engine: Engine):
    plan = plan_of(engine, PLAIN, response_format=Lark('start: <tool_call> "x" </tool_call>', trusted=True))
    assert accepts(plan, engine, "<tool_call>x</tool_call>" + END)
    spec = {"format": {"type": "tag", "begin": "<tool_call>", "content": FREE, "end": "</tool_call>"}}
    tag = StructuralTag(spec, trusted=True)
    assert accepts(plan_of(engine, PLAIN, response_format=tag), engine, "<tool_call>free 文<b></tool_call>" + END)


# -- hostile grammars


def test_a_regex_of_hundreds_of_classes_of_all_scripts_is_read_at_once(engine: Engine):
    plan = plan_of(engine, response_format=Regex(r"\w+" * 300))
    assert len(shortest(plan, engine) or "") == 300


def test_a_chain_as_long_as_allowed_compiles_and_is_walked(engine: Engine):
    rules = "".join(f'r{i}: "a" r{i + 1} | "b"\n' for i in range(1_900))
    plan = plan_of(engine, PLAIN, response_format=Lark("start: r0\n" + rules + 'r1900: "c"'))
    assert accepts(plan, engine, "a" * 300 + "b" + END)
    assert accepts(plan, engine, "a" * 1_900 + "c" + END)


def test_an_explosive_regex_ends_its_row_with_an_error_and_no_silence(engine: Engine):
    plan = plan_of(engine, PLAIN, response_format=Regex("((a{1,100}){1,100}){1,100}"))
    with contextlib.suppress(GuidanceError):
        assert not accepts(plan, engine, "b")
        assert accepts(plan, engine, "a" * 50 + END)


@pytest.mark.parametrize(
    "body",
    [
        "~/(?s:.*)a(?s:.{3})/",
        "~/x/ & ~/y/",
        "(~/x/)",
        "~(~/[a-z]+/)",
        "/[a-z]*/ & ~/x/",
        '~"x" | "y"',
        "~/x/{2}",
        "(~/x/ & ~/y/) | ~/z/",
    ],
)
def test_a_complement_holds_text_and_no_marker(engine: Engine, body: str) -> None:
    """A complement would hold the bytes by which the engine knows markers: the mask would offer what commit refuses."""
    plan = plan_of(engine, response_format=Lark(f'start: "-" A\nA: {body}'))
    state = GuidanceState(plan, engine, entry="after")
    rng = random.Random(body)
    while not state.is_stopped and state.num_tokens < 12:
        ids = allowed_ids(state.mask())
        assert not set(ids) & engine.tokens.marker_ids - plan.end_ids()
        state.commit([rng.choice([i for i in ids if i not in plan.end_ids()] or ids)])


@pytest.mark.parametrize("name", [pytest.param("gemma3", marks=pytest.mark.slow), "llama2"])
def test_every_ordinary_token_of_the_same_bytes_is_offered(real_engine: Any, name: str):
    """A vocabulary with byte fallbacks writes ``<`` by two ids, of which models use the one that is not a fallback."""
    engine = real_engine(name)
    same = [i for i in range(engine.vocab_size) if engine.token_bytes(i) == b"<" and i not in engine.tokens.marker_ids]
    assert [i for i in engine.tokens_within(b"<b>") if engine.token_bytes(i) == b"<"] == same
    assert engine.tokenize("<")[-1] in same
    assert len(same) == 2
