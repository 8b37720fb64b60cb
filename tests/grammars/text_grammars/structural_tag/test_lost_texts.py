"""Random structural tags: each text of an accepted format is written, so that its plan has an end."""

from __future__ import annotations

import itertools
import random
import re
from functools import lru_cache
from typing import Any

import pytest

from grammars.text_grammars.lark.lost_texts import LexerWalk
from grammars.values.constraints import StructuralTag
from grammars.values.format import Format
from grammars.values.report import ReportRow
from guided.engine.engine import Engine
from special_tokens.errors import GrammarError
from tests.cases import seeds
from tests.judges.plans import END, accepts, plan_of
from tests.made_up.structural_tags import FREE, const, json_of, of, regex, tag

LETTERS, LONGEST = 'a1-{"', 4
REGEXES = [
    "a", "[a1]", "a+", "[a1]*", "[^-]*", "-?", "(a-)?", ".*", '[^"]+', "[{]?a", '"a"', "(?s:.*)", "1{1,2}", "[a-]{2}",
]  # fmt: skip
#: Schemas, each with the regex of its short texts.
JSON: list[tuple[Any, str]] = [
    *(({"type": kind}, "-?(?:0|[1-9][0-9]*)") for kind in ("integer", "number")),
    ({"enum": [1, 111]}, "1|111"),
    ({"enum": ["a", "1"]}, '"[a1]"'),
    ({"type": "string"}, '"[^"]*"'),
]
TIMES = {"optional": (0, 1), "star": (0, LONGEST), "plus": (1, LONGEST), "repeat": (1, 2)}


def _random_format(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    leaves = ["const_string", "regex", "json_schema"]
    kinds = [*leaves, "sequence", "sequence", "sequence", "or", "tag", "any_text", "dispatch", *TIMES]
    kind = rng.choice(kinds if depth else [*leaves, "any_text"])
    match kind:
        case "const_string":
            return const(rng.choice(["a", "1", "-", "a1", "{", '"', "-a"]))
        case "regex":
            return regex(rng.choice(REGEXES))
        case "json_schema":
            return json_of(rng.choice(JSON)[0])
        case "any_text":
            return {"type": kind, "excludes": rng.choice([[], ["-"], ["a1"]])}
        case "dispatch":
            triggers = rng.choice([["a1"], ["-a", "1-"], ["{{", "-{"]])
            rules = [[trigger, _random_format(rng, depth - 1)] for trigger in triggers]
            return {"type": kind, "rules": rules, "loop": rng.choice([True, False])}
        case "sequence" | "or":
            elements = [_random_format(rng, depth - 1) for _ in range(rng.randint(2, 3))]
            for i, before in enumerate(elements[:-1] if kind == "sequence" else ()):
                # one byte, right after a lexeme that may go on, is too much for llguidance 1.9
                if _ends_freely(before):
                    elements[i + 1] = const(rng.choice(["-a", "a1", "{-"]))
            return {"type": kind, "elements": elements}
    more: dict[str, Any] = {"min": 1, "max": 2} if kind == "repeat" else {}
    if kind == "tag":
        more = {"begin": rng.choice(["{", "-", "a"]), "end": rng.choice(["-a", '"a', "{{"])}
    return {"type": kind, "content": _random_format(rng, depth - 1), **more}


def _ends_freely(spec: Any) -> bool:
    """Whether a format ends with text that goes on to what follows it."""
    match spec["type"]:
        case "sequence":
            return _ends_freely(spec["elements"][-1])
        case "or":
            return any(map(_ends_freely, spec["elements"]))
    return spec["type"] in ("any_text", "dispatch")


def _texts(spec: Any, end: str = "") -> set[str]:
    """The texts of at most `LONGEST` letters of a format and an end after it, by `re` and by sets."""
    match spec["type"]:
        case "regex":
            return _up_to(_matching(spec["pattern"]), end)
        case "any_text":
            return _up_to(_without(spec["excludes"], end), end)
        case "dispatch":
            triggers = [trigger for trigger, _ in spec["rules"]]
            barred = [*triggers, *filter(None, [end])]
            texts = _up_to(_without(triggers, end), end)
            for _ in range(LONGEST if spec["loop"] else 1):
                for trigger, content in spec["rules"]:
                    leads = _joined(_without(barred), {trigger})
                    leads = {lead for lead in leads if not any(text in lead[:-1] for text in barred)}
                    after = _joined(_texts(content), texts) if spec["loop"] else _texts(content, end)
                    texts = texts | _joined(leads, after)
            return texts
        case "sequence":
            *first, last = spec["elements"]
            texts, prefix = {""}, ""
            for element, following in itertools.pairwise((*first, last)):
                then = following.get("value", following.get("begin", "")) if _ends_freely(element) else ""
                texts = _joined(texts, _texts(_after(element, prefix), then))
                prefix = then
            return _joined(texts, _texts(_after(last, prefix), end))
        case "or":
            return set().union(*(_texts(element, end) for element in spec["elements"]))
        case "tag":
            texts = _joined({spec["begin"]}, _texts(spec["content"], spec["end"]))
        case "const_string":
            texts = {spec["value"]}
        case "json_schema":
            texts = set(next(_matching(pattern) for schema, pattern in JSON if schema == spec["json_schema"]))
        case kind:
            once, (least, most) = _texts(spec["content"]), TIMES[kind]
            powers = [{""}]
            for _ in range(most):
                powers.append(_joined(powers[-1], once))
            texts = set().union(*powers[least:])
    return _joined(texts, {end})


def _after(spec: Any, prefix: str) -> Any:
    """A literal or tag of which the first letters, its ``prefix``, have ended the text before it."""
    key = "value" if spec["type"] == "const_string" else "begin"
    return {**spec, key: spec[key].removeprefix(prefix)} if prefix else spec


def _up_to(texts: set[str] | frozenset[str], end: str) -> set[str]:
    """The texts with the end after them, which is the first one in them."""
    joined = _joined(texts, {end})
    return {text for text in joined if text.find(end) == len(text) - len(end)} if end else joined


def _without(excluded: list[str], end: str = "") -> set[str]:
    return {text for text in _matching("(?s:.*)") if not any(word in text for word in excluded if word != end)}


@lru_cache
def _matching(pattern: str) -> frozenset[str]:
    every = ("".join(letters) for size in range(LONGEST + 1) for letters in itertools.product(LETTERS, repeat=size))
    return frozenset(text for text in every if re.fullmatch(pattern, text))


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
        assert any(reason in str(error) for reason in REFUSALS), error
        return
    if any(map(_says_loss, plan.response.report.rows)):
        return
    texts = sorted(_texts(spec), key=lambda text: (len(text), text))
    for text in {*texts[:12], *rng.sample(texts, min(12, len(texts)))}:
        assert accepts(plan, byte_engine, text + END), (spec, text)


REFUSALS = ("cannot always follow", "free text can only be followed by", "free text cannot be repeated",
            "is contained in", "no text ends")  # fmt: skip


def _says_loss(row: ReportRow) -> bool:
    lost = "cannot always follow" in row.reason and "beyond ASCII" not in row.reason
    return lost or "it is not read on" in row.reason


def _plan(engine: Engine, *elements: dict[str, Any], kind: str = "sequence") -> Any:
    return plan_of(engine, Format("plain"), response_format=StructuralTag({"format": of(kind, *elements)}))


OBJECT = json_of({"type": "object"})
TAG = tag("<a>", OBJECT, "</a>")


THINK = tag("<t>", FREE, "</t>")
CALL = tag("<f>", OBJECT, "</f>")
NUMBER = json_of({"type": "number"})
_ANSWER = of("sequence", const("Answer: "), NUMBER, const("."))
_TEXT_THEN_TAG = of("sequence", FREE, TAG)
_TEXT_THEN_END = of("sequence", FREE, const("END"))
_TEXT_THEN_ENDED = of("sequence", FREE, const("ENDED"))
_A_JSON_VALUE = "a JSON value cannot always follow"
_BY_TEXT = "elements[0].elements[2]: '.' cannot always follow a JSON value"


def _calls(*triggers: str, **more: Any) -> dict[str, Any]:
    return of("triggered_tags", CALL, triggers=list(triggers)) | more


def _dispatch(content: Any, *, loop: bool) -> dict[str, Any]:
    return {"type": "dispatch", "rules": [["<a>", content], ["<b>", OBJECT]], "loop": loop}


@pytest.mark.parametrize(
    ("kind", "elements", "message"),
    [
        ("sequence", [regex(".+"), OBJECT], f"elements[1]: {_A_JSON_VALUE} /.+/: the lexer goes on with /.+/"),
        ("sequence", [regex(r"[\s\S]*"), TAG], rf"elements[1].content: {_A_JSON_VALUE} /[\s\S]*/ '<a>'"),
        (
            "sequence",
            [regex("Thought: .*"), const("done"), OBJECT],
            f"elements[2]: {_A_JSON_VALUE} /Thought: .*/",
        ),
        (
            "sequence",
            [regex("[a-z0-9]+"), json_of({"type": "integer"})],
            f"elements[1]: {_A_JSON_VALUE} /[a-z0-9]+/",
        ),
        ("sequence", [regex("[^;:]*"), of("optional", OBJECT), const(";")], "elements[1].content: a JSON value"),
        ("or", [of("sequence", const("The answer is "), NUMBER, const(".")), {**FREE, "max_chars": 5}], _BY_TEXT),
        # a call after it would be text as well
        ("sequence", [_dispatch(FREE, loop=True)], "elements[0].rules[0][1]: free text cannot be repeated"),
    ],
    ids=str,
)
def test_a_format_is_refused_where_a_lexeme_takes_what_should_follow_it(
    byte_engine: Engine, kind: str, elements: list[Any], message: str
) -> None:
    with pytest.raises(GrammarError, match=re.escape(f"format.{message}")):
        _plan(byte_engine, *elements, kind=kind)


@pytest.mark.parametrize(
    ("elements", "texts"),
    [
        ([regex("Thought: [^\n]*\n"), OBJECT], ["Thought: x\n{}"]),
        ([regex("[a-z ]*"), OBJECT], ["so {}", "{}"]),
        ([regex("Thought: .*"), const("done")], ["Thought: it is done"]),
        ([of("or", FREE, TAG)], ["", "x", "<a>{}</a>", "<a>{"]),
        ([of("repeat", json_of({"type": "integer"}), min=1, max=2)], ["12", "-1-2", "10"]),
        # what free text excludes is known
        ([of("optional", THINK), _calls("<f>", excludes=["<t>", "</t>"])], ["<t>a<f>b</t>c<f>{}</f>", "a<f>{}</f>"]),
        ([{**THINK, "content": {**FREE, "excludes": ["<f>"]}}, _calls("<f>")], ["<t>a</t>b<f>{}</f><t>"]),
        ([const("# "), regex(r"[^\n]+"), {**_calls("<f>"), "tags": [{**THINK, "begin": "<f>"}]}], ["# a\n<f>b</t>"]),
        ([regex(r"# [^\n]+"), _calls("<f>")], ["# a<f>{}</f>", "# a\n<f>{}</f>"]),
        # free text after a trigger ends where the dispatch does
        ([_dispatch(FREE, loop=False), const("END"), OBJECT], ["xEND{}", "x<a>yEND{}", "<b>{}END{}"]),
    ],
    ids=str,
)
def test_a_format_without_loss_is_written(byte_engine: Engine, elements: list[Any], texts: list[str]) -> None:
    plan = _plan(byte_engine, *elements)
    assert not any(map(_says_loss, plan.response.report.rows))
    for text in texts:
        assert accepts(plan, byte_engine, text + END), text


@pytest.mark.parametrize(
    ("kind", "elements", "lost", "reason"),
    [
        ("sequence", [of("optional", THINK), _calls("<")], "<t>a</t>", "any text ends"),
        ("or", [const("<none>"), _calls("<")], "<none>", "any text ends"),
        ("or", [OBJECT, _calls("{", tags=[{**CALL, "begin": '{"f": '}])], "{}", "any text ends"),
        ("sequence", [regex(r"\d+"), FREE], "1\u0665", "beyond ASCII"),
        ("sequence", [of("optional", THINK), _calls("<f>")], "<t>a <f></t>", "goes on with any text"),
        ("or", [_ANSWER, {**FREE, "excludes": ["."]}], "Answer: 4.", "goes on with any text"),
        ("or", [_TEXT_THEN_TAG, TAG | {"begin": "<b>"}], "<b>{}</a>", "goes on with any text"),
        ("or", [_TEXT_THEN_TAG, _TEXT_THEN_END], "<a>END", "any text ends"),
        ("or", [_TEXT_THEN_END, FREE], "END.", "any text ends"),
        ("or", [_TEXT_THEN_END, _TEXT_THEN_ENDED], "ENDED", "any text ends"),
    ],
    ids=str,
)
def test_what_free_text_takes_has_a_row(byte_engine: Engine, kind: str, elements: Any, lost: str, reason: str) -> None:
    plan = _plan(byte_engine, *elements, kind=kind)
    assert any(reason in row.reason for row in plan.response.report.rows)
    assert not accepts(plan, byte_engine, lost + END) or reason == "beyond ASCII"


def test_what_free_text_takes_of_a_long_pattern_is_asked_once(
    byte_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    has_text = LexerWalk._has_text
    monkeypatch.setattr(LexerWalk, "_has_text", lambda walk, term: asked.append(term) or has_text(walk, term))
    _plan(byte_engine, _TEXT_THEN_END, regex("[A-Z]{40}x"), kind="or")
    assert 1 <= len(asked) <= 4
