"""Random structural tags: each text of an accepted format is written, so that its plan has an end."""

from __future__ import annotations

import itertools
import random
import re
from functools import lru_cache
from typing import Any

import pytest

from grammars.values.constraints import StructuralTag
from grammars.values.format import Format
from guided.engine.engine import Engine
from special_tokens.errors import GrammarError
from tests.cases import seeds
from tests.judges.plans import END, accepts, plan_of

LETTERS, LONGEST = 'a1-{"', 4
REGEXES = [
    "a", "[a1]", "a+", "[a1]*", "[^-]*", "-?", "(a-)?", ".*", '[^"]+', "[{]?a", '"a"', "(?s:.*)", "1{1,2}", "[a-]{2}",
]  # fmt: skip
#: Schemas, each with the regex of its short texts.
JSON: list[tuple[Any, str]] = [
    ({"type": "integer"}, "-?(?:0|[1-9][0-9]*)"),
    ({"enum": [1, 111]}, "1|111"),
    ({"enum": ["a", "1"]}, '"[a1]"'),
    ({"type": "string"}, '"[^"]*"'),
]
TIMES = {"optional": (0, 1), "star": (0, LONGEST), "plus": (1, LONGEST), "repeat": (1, 2)}


def _random_format(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    leaves = ["const_string", "regex", "json_schema"]
    kind = rng.choice([*leaves, "sequence", "sequence", "sequence", "or", "tag", *TIMES] if depth else leaves)
    match kind:
        case "const_string":
            return _const(rng.choice(["a", "1", "-", "a1", "{", '"', "-a"]))
        case "regex":
            return _regex(rng.choice(REGEXES))
        case "json_schema":
            return _json(rng.choice(JSON)[0])
        case "sequence" | "or":
            return {"type": kind, "elements": [_random_format(rng, depth - 1) for _ in range(rng.randint(2, 3))]}
    more: dict[str, Any] = {"min": 1, "max": 2} if kind == "repeat" else {}
    if kind == "tag":  # ends of one byte, right after a lexeme that may go on, are too much for llguidance 1.9
        more = {"begin": rng.choice(["{", "-", "a"]), "end": rng.choice(["-a", '"a', "{{"])}
    return {"type": kind, "content": _random_format(rng, depth - 1), **more}


def _texts(spec: Any, end: str = "") -> set[str]:
    """The texts of at most `LONGEST` letters of a format and an end after it, by `re` and by sets."""
    match spec["type"]:
        case "regex":  # which ends at the first end
            texts = _joined(_matching(spec["pattern"]), {end})
            return {text for text in texts if text.find(end) == len(text) - len(end)} if end else texts
        case "sequence":
            *first, last = spec["elements"]
            texts = {""}
            for element in first:
                texts = _joined(texts, _texts(element))
            return _joined(texts, _texts(last, end))
        case "or":
            return set().union(*(_texts(element, end) for element in spec["elements"]))
        case "tag":
            texts = _joined({spec["begin"]}, _texts(spec["content"], spec["end"]))
        case "const_string":
            texts = {spec["value"]}
        case "json_schema":
            texts = next(_matching(regex) for schema, regex in JSON if schema == spec["json_schema"])
        case kind:
            once, (least, most) = _texts(spec["content"]), TIMES[kind]
            powers = [{""}]
            for _ in range(most):
                powers.append(_joined(powers[-1], once))
            texts = set().union(*powers[least:])
    return _joined(texts, {end})


@lru_cache
def _matching(regex: str) -> frozenset[str]:
    every = ("".join(letters) for size in range(LONGEST + 1) for letters in itertools.product(LETTERS, repeat=size))
    return frozenset(text for text in every if re.fullmatch(regex, text))


def _joined(ones: set[str] | frozenset[str], others: set[str] | frozenset[str]) -> set[str]:
    fitting = [[other for other in others if len(other) <= size] for size in range(LONGEST + 1)]
    return {one + other for one in ones if len(one) <= LONGEST for other in fitting[LONGEST - len(one)]}


@pytest.mark.parametrize("seed", seeds(2_000, default=200))
def test_every_text_of_a_format_is_written_or_the_format_is_refused(byte_engine: Engine, seed: int) -> None:
    rng = random.Random(seed)
    spec = _random_format(rng)
    try:
        plan = plan_of(byte_engine, Format("plain"), response_format=StructuralTag({"format": spec}))
    except GrammarError as error:
        assert "cannot always follow" in str(error)
        return
    texts = sorted(_texts(spec), key=lambda text: (len(text), text))
    for text in {*texts[:12], *rng.sample(texts, min(12, len(texts)))}:
        assert accepts(plan, byte_engine, text + END), (spec, text)


def _const(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def _regex(pattern: str) -> dict[str, Any]:
    return {"type": "regex", "pattern": pattern}


def _json(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": schema}


OBJECT = _json({"type": "object"})
TAG = {"type": "tag", "begin": "<a>", "content": OBJECT, "end": "</a>"}


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([_regex(".+"), OBJECT], "elements[1]: a JSON value cannot always follow /.+/: the lexer goes on with /.+/"),
        ([_regex(r"[\s\S]*"), TAG], r"elements[1].content: a JSON value cannot always follow /[\s\S]*/ '<a>'"),
        (
            [_regex("Thought: .*"), _const("done"), OBJECT],
            "elements[2]: a JSON value cannot always follow /Thought: .*/",
        ),
        (
            [_regex("[a-z0-9]+"), _json({"type": "integer"})],
            "elements[1]: a JSON value cannot always follow /[a-z0-9]+/",
        ),
        ([_regex("[^;:]*"), {"type": "optional", "content": OBJECT}, _const(";")], "elements[1].content: a JSON value"),
    ],
    ids=str,
)
def test_a_format_is_refused_where_a_lexeme_takes_what_should_follow_it(
    byte_engine: Engine, elements: list[Any], message: str
) -> None:
    tag = StructuralTag({"format": {"type": "sequence", "elements": elements}})
    with pytest.raises(GrammarError, match=re.escape(f"format.{message}")):
        plan_of(byte_engine, Format("plain"), response_format=tag)


@pytest.mark.parametrize(
    ("elements", "texts"),
    [
        ([_regex("Thought: [^\n]*\n"), OBJECT], ["Thought: x\n{}"]),
        ([_regex("[a-z ]*"), OBJECT], ["so {}", "{}"]),
        ([_regex("Thought: .*"), _const("done")], ["Thought: it is done"]),
        ([{"type": "or", "elements": [{"type": "any_text"}, TAG]}], ["", "x", "<a>{}</a>", "<a>{"]),
        ([{"type": "repeat", "content": _json({"type": "integer"}), "min": 1, "max": 2}], ["12", "-1-2", "10"]),
    ],
    ids=str,
)
def test_a_format_without_loss_is_written(byte_engine: Engine, elements: list[Any], texts: list[str]) -> None:
    tag = StructuralTag({"format": {"type": "sequence", "elements": elements}})
    plan = plan_of(byte_engine, Format("plain"), response_format=tag)
    for text in texts:
        assert accepts(plan, byte_engine, text + END), text


THINK = {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"}
CALL = {"type": "tag", "begin": "<f>", "content": OBJECT, "end": "</f>"}
NUMBER = _json({"type": "number"})
_ANSWER = {"type": "sequence", "elements": [_const("Answer: "), NUMBER, _const(".")]}
_TEXT_THEN_TAG = {"type": "sequence", "elements": [{"type": "any_text"}, TAG]}


def _calls(*triggers: str, **more: Any) -> dict[str, Any]:
    return {"type": "triggered_tags", "triggers": list(triggers), "tags": [CALL], **more}


def _plan(engine: Engine, kind: str, *elements: dict[str, Any]) -> Any:
    tag = {"format": {"type": kind, "elements": list(elements)}}
    return plan_of(engine, Format("plain"), response_format=StructuralTag(tag))


@pytest.mark.parametrize(
    ("elements", "texts"),
    [
        (
            [{"type": "optional", "content": THINK}, _calls("<f>", excludes=["<t>", "</t>"])],
            ["<t>a<f>b</t>c<f>{}</f>", "a<f>{}</f>"],
        ),
        (
            [
                {**THINK, "content": {"type": "any_text", "excludes": ["<f>"]}, "type": "tag"},
                _calls("<f>"),
            ],
            ["<t>a</t>b<f>{}</f><t>"],
        ),
        (
            [_const("# "), _regex(r"[^\n]+"), {**_calls("<f>"), "tags": [{**THINK, "begin": "<f>"}]}],
            ["# a\n<f>b</t>"],
        ),
    ],
    ids=["optional thoughts", "thoughts without calls", "title"],
)
def test_what_free_text_excludes_is_known(byte_engine: Engine, elements: Any, texts: list[str]) -> None:
    plan = _plan(byte_engine, "sequence", *elements)
    assert all(accepts(plan, byte_engine, text + END) for text in texts)


def test_text_next_to_a_number_that_it_leaves_is_refused(byte_engine: Engine) -> None:
    """`The answer is 4.` could not be written."""
    answer = {"type": "sequence", "elements": [_const("The answer is "), NUMBER, _const(".")]}
    with pytest.raises(GrammarError, match="cannot always follow"):
        _plan(byte_engine, "or", answer, {"type": "any_text", "max_chars": 5})


@pytest.mark.parametrize(
    ("kind", "elements", "lost", "reason"),
    [
        ("sequence", [{"type": "optional", "content": THINK}, _calls("<")], "<t>a</t>", "any text ends"),
        ("or", [_const("<none>"), _calls("<")], "<none>", "any text ends"),
        ("or", [OBJECT, _calls("{", tags=[{**CALL, "begin": '{"f": '}])], "{}", "any text ends"),
        ("sequence", [_regex(r"\d+"), {"type": "any_text"}], "1\u0665", "beyond ASCII"),
        ("sequence", [{"type": "optional", "content": THINK}, _calls("<f>")], "<t>a <f></t>", "goes on with any text"),
        ("or", [_ANSWER, {"type": "any_text", "excludes": ["."]}], "Answer: 4.", "goes on with any text"),
        ("or", [_TEXT_THEN_TAG, TAG | {"begin": "<b>"}], "<b>{}</a>", "goes on with any text"),
    ],
    ids=["thoughts", "literal", "JSON", "digits of other scripts", "a call in thoughts", "a number", "another tag"],
)
def test_what_free_text_takes_has_a_row(byte_engine: Engine, kind: str, elements: Any, lost: str, reason: str) -> None:
    plan = _plan(byte_engine, kind, *elements)
    assert any(reason in row.reason for row in plan.response.report.rows)
    assert not accepts(plan, byte_engine, lost + END) or reason == "beyond ASCII"
