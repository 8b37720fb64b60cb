"""Short client texts that expand without bound: each is refused by name or composed, and nothing is looked
at for long.

Work is bounded by counting, so no test looks at a clock: what is not bounded here never comes back at all.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.values.constraints import Gbnf, JsonSchema, Lark, Regex, StructuralTag
from guided.bitmask import allowed_ids, is_allowed
from guided.engine.engine import Engine
from guided.rows.sequence import RowSequence
from guided.state.state import GuidanceState
from special_tokens.errors import GrammarError, LimitExceeded, RequestError
from tests.judges.plans import FORMAT, plan_of


def doubling(times: int, leaf: str, *, colon: str = ":", name: str = "r") -> str:
    """Rules each of which is the next one twice."""
    lines = [f"{name}{i}{colon} {name}{i + 1} {name}{i + 1}" for i in range(times)]
    return "\n".join([*lines, f"{name}{times}{colon} {leaf}", ""])


def chain(length: int) -> str:
    lines = [f"r{i}: r{i + 1}" for i in range(length)]
    return "\n".join(["start: r0", *lines, f'r{length}: "a"', ""])


def custom(syntax: str, definition: str) -> dict[str, Any]:
    form = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return {"tools": [{"type": "custom", "custom": {"name": "t", "format": form}}]}


def lark(text: str) -> dict[str, Any]:
    return {"response_format": Lark(text)}


def gbnf(text: str) -> dict[str, Any]:
    return {"response_format": Gbnf(text)}


TIMES = 60
MANY = "9" * 5_000
ENDLESS: dict[str, tuple[dict[str, Any], str]] = {
    "terminals": (lark("start: R0\n" + doubling(TIMES, '"a"', name="R")), "compiling the grammar takes more than"),
    "empty terminals": (
        lark("start: R0\n" + doubling(TIMES, "/a?/", name="R")), "compiling the grammar takes more than"
    ),
    "repeated terminal": (
        lark('start: R\nR: S{65536}\nS: "a"{65536}'), "line 2, column 1: the shortest text of the terminal R is"
    ),
    "regex": (lark("start: /(a{65536}){65536}/"), "line 1, column 8: the shortest text of /.*/ is too long: 42"),
    "nested repeats": ({"response_format": Regex("(a{65536}){65536}")}, "regex: the shortest text of the pattern"),
    "anchored": ({"response_format": Regex("^a{2147483648}$")}, "regex: .* too long: 2147483648; expected"),
    "letters": ({"response_format": Regex(r"[^\W\d_]{2147483648}", unicode=True)}, "regex: .* too long: 2147483648"),
    "custom regex": (custom("regex", "(a{65536}){65536}"), r"tools\[0\].format.definition: the shortest text"),
    "regex of a tag": (
        {"response_format": StructuralTag({"type": "structural_tag", "format": {
            "type": "tag", "begin": "<a>",
            "content": {"type": "regex", "pattern": "(a{65536}){65536}"}, "end": "</a>"}})},
        "format.content.pattern: the shortest text",
    ),
    "repeats of a tag": (
        {"response_format": StructuralTag({"type": "structural_tag", "format": {
            "type": "repeat", "min": 1_000, "max": 1_000, "content": {
                "type": "repeat", "min": 1_000, "max": 1_000, "content": {"type": "const_string", "value": "a"}}}})},
        "format.content: the shortest text repeats 1000000 times; expected at most 200000",
    ),
    "GBNF literal": (gbnf('root ::= "' + "a" * 30_000 + '" root?'), "column 10: the literal may continue into what"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_what_comes_to_something_endless_is_refused_with_its_place(engine: Engine, name: str):
    parts, message = ENDLESS[name]

    def prepared() -> None:
        plan = plan_of(engine, **parts)
        engine.pristine(plan, plan.entries[0].name)

    with pytest.raises((GrammarError, LimitExceeded), match=message):
        prepared()


@pytest.mark.parametrize("name", ["nested repeats", "anchored", "letters", "custom regex", "regex of a tag"])
def test_no_text_of_something_endless_is_spelled_out(engine: Engine, name: str):
    tracemalloc.start()
    try:
        with pytest.raises((GrammarError, LimitExceeded)):
            plan_of(engine, **ENDLESS[name][0])
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


BEYOND: dict[str, tuple[dict[str, Any], str]] = {
    "regex": ({"response_format": Regex("a{99999999999999999999}")}, "regex line 1, column 2: a repeat of more than"),
    "long": ({"response_format": Regex("a{" + MANY + "}")}, "regex line 1, column 2: a repeat of more than 4294967295"),
    "not a digit": (custom("regex", "a{²}"), "definition line 1, column 2: a repeat without numbers"),
    "custom": (custom("regex", "a{99999999999999999999}"), "definition line 1, column 2: a repeat of more than"),
    "GBNF": (
        gbnf('root ::= "a"{' + MANY + "}"),
        "line 1, column 13: a repeat of 9+[.]{3} times; expected at most",
    ),
    "braces": (
        lark('start: "a"{' + MANY + "}"),
        "line 1, column 11: a repeat of 9+[.]{3} times; expected at most",
    ),
    "tilde": (lark('start: "a"~1..' + MANY), "line 1, column 11: a repeat of 9+[.]{3} times"),
    "in a regex": (
        lark("start: /a{" + MANY + "}/"),
        "line 1, column 10: not a regular expression: a repeat",
    ),
    "effort": (
        {"reasoning_effort": 'custom:start: $START_ID "a"{' + MANY + "} $END_ID"},
        "reasoning_effort line 1, column 21: a repeat of 9+[.]{3} times",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_numbers_beyond_all_limits_are_refused_with_their_place(engine: Engine, name: str):
    parts, message = BEYOND[name]
    with pytest.raises(RequestError, match=message):
        plan_of(engine, **parts)


#: The shortest texts of these are longer than any answer.
LONG: dict[str, dict[str, Any]] = {
    "GBNF": gbnf("root ::= r0\n" + doubling(TIMES, '"a"', colon=" ::=")),
    "Lark": lark("start: r0\n" + doubling(TIMES, '"a"')),
    "effort": {"reasoning_effort": "custom:start: $START_ID r0 $END_ID\n" + doubling(TIMES, '"a"')},
    "tag": {"response_format": StructuralTag({"type": "structural_tag", "format": {
        "type": "grammar", "grammar": "root ::= r0\n" + doubling(TIMES, '"a"', colon=" ::=")}})},
    "GBNF repeat": gbnf('root ::= "a"{99999}'),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_what_has_no_short_text_is_written_until_the_budget_cuts_it(engine: Engine, name: str) -> None:
    plan = plan_of(engine, **LONG[name])
    row = RowSequence(plan, engine)
    for _ in range(20):
        mask = row.token_mask()
        row.extend(allowed_ids(mask.words)[-1:])
    assert row.error is None
    assert len(row.state.ff_tokens()) < 100_000


#: These took very long; the analyses are bounded now and take linear time.
LARGE: dict[str, dict[str, Any]] = {
    "doubled GBNF": gbnf("root ::= r0\n" + doubling(14, '"a"', colon=" ::=")),
    "doubled GBNF that may be empty": gbnf("root ::= r0\n" + doubling(40, '"a"?', colon=" ::=")),
    "GBNF chain": gbnf("root ::= r0\n" + "".join(f'r{i} ::= r{i + 1} "x"?\n' for i in range(250)) + 'r250 ::= "a"\n'),
    "GBNF words": gbnf("root ::= " + " | ".join(f'"a{i}"' for i in range(6_000))),
    "Lark chain": lark(chain(1_998)),
    "choices downwards": lark(
        "start: r0\n" + "".join(f'r{i}: r{i + 1} "x" | r{i + 1} "y" | "z"\n' for i in range(1_200)) + 'r1200: "q"'
    ),
    "choices upwards": lark(
        "start: r1200\n" + "".join(f'r{i}: r{i - 1} "x" | "z"\n' for i in range(1_200, 0, -1)) + 'r0: "q"'
    ),
    "GBNF of optional words": gbnf("root ::= " + " ".join(f'"word{i}"?' for i in range(1_500))),
    "followed by all": lark("start: (" + "|".join(f'"a{i}"' for i in range(900)) + ")*"),
    "followed by all, without end": lark("start: (" + "|".join(f"/a{i}+/" for i in range(900)) + ")*"),
    "optional rules": lark(
        "start: " + " ".join(f"r{i}" for i in range(500)) + "\n" + "".join(f'r{i}: "a{i}"?\n' for i in range(500))
    ),
    "no least": {"response_format": Regex("(a{0,65536}){0,65536}")},
    "long but within": {"response_format": Regex("a{100000}")},
}


@pytest.mark.parametrize("name", LARGE)
def test_large_grammars_compose(engine: Engine, name: str):
    plan = compose(Parts(**LARGE[name]), tokens=engine.tokens, format=FORMAT)
    assert plan.grammar


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(lark("start: " + " | ".join(f'"a{i}"' for i in range(13_000))), marks=pytest.mark.slow),
        pytest.param(lark("start: " + " ".join(f'"a{i}"?' for i in range(7_000))), marks=pytest.mark.slow),
        {"response_format": Regex("(a|aa){10000}")},
    ],
    ids=["options", "optional parts", "ambiguous repeat"],
)
def test_what_no_token_could_follow_is_refused_before_the_first(engine: Engine, parts: dict[str, Any]):
    plan = plan_of(engine, **parts)
    with pytest.raises(LimitExceeded, match="the grammar does not compile: .*(max is|too many)"):
        engine.pristine(plan, "after")


def test_a_doubled_grammar_is_still_the_same_language(engine: Engine):
    from tests.judges.plans import END, accepts

    plan = plan_of(engine, **gbnf("root ::= r0\n" + doubling(6, '"ab"', colon=" ::=")))
    assert accepts(plan, engine, "ab" * 64 + END, "after")
    assert not accepts(plan, engine, "ab" * 63 + END, "after")
    plan = plan_of(engine, **custom("lark", "start: r0\n" + doubling(12, '"a"')), tool_choice="required")
    head, tail = '<tool_call>\n{"name": "t", "arguments": {"input": "', '"}}\n</tool_call>' + END
    assert accepts(plan, engine, head + "a" * 4_096 + tail, "after")
    assert not accepts(plan, engine, head + "a" * 64 + tail, "after")


@pytest.mark.parametrize("count", [450, 451, 1_001, 3_000])
def test_so_many_optional_keys_are_written_to_the_last(engine: Engine, count: int) -> None:
    """The engine's item row grows with the keys that may still come, and is longest after the first key."""
    keys = [f"k{i}" for i in range(count)]
    schema = {"type": "object", "properties": {key: {"type": "null"} for key in keys}, "additionalProperties": False}
    state = GuidanceState(plan_of(engine, response_format=JsonSchema(schema)), engine, entry="after")
    text = json.dumps(dict.fromkeys([keys[0], keys[1], keys[count // 2], keys[-1]]))
    for token in engine.tokenize(text):
        assert is_allowed(state.mask(), token)
        state.commit([token])
    assert state.is_accepting
