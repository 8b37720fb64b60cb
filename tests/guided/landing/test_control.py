"""With a budget that holds the shortest answer, the answer is whole, whatever is sampled."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import guided
from grammars.limits.deadline import time_limits, use_time_limits
from grammars.plan.plan import Plan, RegionName
from grammars.plan.wire import decode_plan, encode_plan
from grammars.values.constraints import JsonSchema
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.landing.control import LandingControl
from guided.landing.effort import Effort
from guided.landing.landing import LandingSearch
from guided.landing.options import Budgeting, LandingOptions, with_limit_notes
from guided.landing.row_landing import row_landing
from guided.output.parser import ToolCallEnd
from guided.rows.answer import RowAnswer, read_answer
from guided.rows.reader import parser_of
from guided.rows.sequence import RowSequence
from guided.state.entry import FRESH
from special_tokens.errors import RequestError
from tests.cases import slow_where
from tests.conftest import ROOT
from tests.guided.landing.test_landing import HOSTILE, TAGS, TREE, made
from tests.judges.plans import FORMAT, PLAIN, drawn, plan_of

#: Kinds that the default run tries; the others differ by the syntax of calls or the level of effort alone.
FEW = ("json", "recursive json", "regex", "choice", "lark", "gbnf", "structural tag", "text in a tag", "native low",
       "structured low", "calls: tags", "calls: pythonic", "calls: harmony", "calls: xml")  # fmt: skip
BUDGETS = (0, 1, 2, 3, 5, 10, 30, 100)


def row_of(plan: Plan, engine: Engine, max_tokens: int, options: LandingOptions | None = None) -> RowSequence:
    landing = row_landing(plan, engine, FRESH, max_tokens, Budgeting(options or LandingOptions()))
    assert landing.control is not None, landing.note
    return RowSequence(plan, engine, landing=landing)


def step(row: RowSequence, chance: random.Random) -> int:
    """Choose as a loop does, and commit."""
    mask = row.token_mask()
    assert mask is not None
    ids = allowed_ids(mask.words)
    order = list(drawn(ids, row.state.engine, chance))
    token = order[0]
    if row.is_landing():
        assert row.landing is not None
        effort = row.landing.step_effort()
        nearest = row.landing_token()
        # free text may be cut, and it has no nearest end inside a character
        assert nearest in ids or (nearest is None and row.state.region is RegionName.CONTENT)
        own = order[0]
        token = next(
            (i for i in order if row.lands(i, effort, is_own=i == own)), nearest if nearest is not None else token
        )
        if token != own:
            row.note_landing(own)
    row.extend([token])
    assert row.error is None
    return token


def written(row: RowSequence, chance: random.Random, max_tokens: int) -> list[int]:
    tokens: list[int] = []
    while not row.is_done and len(tokens) < max_tokens:
        tokens.append(step(row, chance))
    return tokens


def landed(
    plan: Plan, engine: Engine, chance: random.Random, extras: Iterable[int], make: Any = row_of, write: Any = written
) -> Iterator[tuple[RowSequence, list[int]]]:
    """Rows and their tokens within the least number of tokens and ``extras`` more; each but free text has ended."""
    least = min_tokens(plan, engine)
    for extra in extras:
        row = make(plan, engine, least + extra)
        tokens = write(row, chance, least + extra)
        is_free = plan.response is None and plan.tool_choice != "required"  # it may be cut anywhere
        assert row.state.is_stopped or is_free, (extra, b"".join(map(engine.token_bytes, tokens)))
        yield row, tokens


LONG = {
    "type": "object",
    "properties": {f"member {i}": {"type": ["string", "array"], "minItems": 1, "minLength": i % 4} for i in range(30)},
    "required": [f"member {i}" for i in range(0, 30, 2)],
}


@pytest.mark.parametrize("kind", [*slow_where(lambda kind: kind not in list(FEW)[::4], FEW), "long"])
def test_a_slow_processor_lands_on_the_same_tokens(engine: Engine, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tries of a step are counted: five times the time, and a pause of the garbage collector, are within limits."""
    begun = LandingControl.step_effort

    def paused(control: LandingControl) -> Effort:
        effort = begun(control)
        effort._until -= pause
        return effort

    monkeypatch.setattr(LandingControl, "step_effort", paused)
    monkeypatch.setattr(
        "guided.landing.effort.time", SimpleNamespace(thread_time=lambda: slowness * time.thread_time())
    )
    found = []
    gc.collect()
    gc.freeze()  # a real pause, five times as long, would be a third thing
    for slowness, pause in ((1.0, 0.0), (5.0, 0.0), (1.0, 0.8)):  # noqa: B007
        plan = (
            plan_of(engine, response_format=JsonSchema(LONG), thinking=False) if kind == "long" else made(engine, kind)
        )
        least = min_tokens(plan, engine)
        rows = [row_of(plan, engine, least + extra) for extra in BUDGETS[:5:2]]
        found.append([written(row, random.Random(kind), row.landing.max_tokens) for row in rows if row.landing])
    gc.unfreeze()
    assert found[0] == found[1] == found[2]


def test_many_required_members_land_with_room_to_spare(engine: Engine) -> None:
    """Looks for a rest of a long way leave effort for a search."""
    names = [f"member {i}" for i in range(140)]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names,
              "additionalProperties": False}  # fmt: skip
    plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    least = min_tokens(plan, engine)
    row = row_of(plan, engine, least + 150)
    tokens = written(row, random.Random(150), least + 150)
    assert row.state.is_stopped
    jsonschema.validate(json.loads(read_answer(tokens, plan, engine).content or ""), schema)


def test_an_answer_that_lost_its_way_says_so(engine: Engine) -> None:
    """A token that was committed without being tried asks for more than the budget holds."""
    grammar = guided.Lark('start: /a*/ ("." | "b" /x{3000}/)')
    plan = plan_of(engine, replace(FORMAT, reasoning=None), response_format=grammar)
    most = min_tokens(plan, engine) + 60
    row = row_of(plan, engine, most)
    tokens = engine.tokenize("ab")
    assert row.is_landing()
    assert row.landing is not None
    assert row.lands(tokens[0], row.landing.step_effort())
    row.extend(tokens[:1])
    assert row.is_landing()
    assert not row.lands(tokens[1], row.landing.step_effort())
    row.extend(tokens[1:])
    assert not row.is_landing()
    assert row.landing.lost
    assert not read_answer(tokens, plan, engine, sequence=row).notes  # the caller stopped it
    chance = random.Random(0)
    while not row.is_done and len(tokens) < most:
        tokens.append(step(row, chance))
    message = read_answer(tokens, plan, engine, sequence=row)
    assert message.finish_reason == "length"
    assert message.notes[-1] == f"the answer was cut: {row.landing.lost}"


def landed_answers(engine: Engine, kind: str, budgets: Sequence[int]) -> list[list[int]]:
    """Answers of one plan within the least number of tokens and ``budgets`` more, of samplers made from these."""
    plan = made(engine, kind)
    least = min_tokens(plan, engine)
    chances = (random.Random(f"{kind} {extra}") for extra in budgets)
    return [
        written(row_of(plan, engine, least + extra), chance, least + extra)
        for extra, chance in zip(budgets, chances, strict=True)
    ]


@pytest.mark.parametrize("kinds", [FEW[::2], pytest.param(FEW[1::2], marks=pytest.mark.slow)], ids=["some", "others"])
def test_an_answer_depends_neither_on_others_before_it_nor_on_the_process(
    engine: Engine, kinds: tuple[str, ...]
) -> None:
    """Found by reading: what a search had learned was kept for all later ones of the plan.  Here in the other order."""
    script = (
        "import json; from tests.conftest import PATIENT, small_engine\n"
        "from grammars.limits.deadline import use_time_limits\n"
        "from tests.guided.landing.test_control import landed_answers\n"
        "with use_time_limits(PATIENT):\n"
        "    engine = small_engine()\n"
        f"    print(json.dumps({{kind: landed_answers(engine, kind, (9, 3, 0)) for kind in {kinds[::-1]}}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    others_first = {kind: [landed_answers(engine, kind, (extra,))[0] for extra in (0, 3, 9)] for kind in kinds}
    assert json.loads(done.stdout) == {kind: answers[::-1] for kind, answers in others_first.items()}


#: Responses in which no choice is made late in what recurs, and texts of theirs.
COUNTED: list[tuple[Any, str]] = [
    (JsonSchema(TREE), '{"v": 1, "kids": [{"v": 22, "kids": ['),
    ({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}, '{"next": {"next": '),
    ({"anyOf": [{"type": "object"}, {"type": "array"}]}, '[[{"a": [1'),
    ({"type": "string", "pattern": "^[a-z]{3}-[0-9]+$"}, '"abc-12'),
    (guided.Regex("(yes|no)"), "y"),
    (guided.StructuralTag(TAGS), '<a>{"name": "'),
]


@pytest.mark.parametrize(("response", "text"), COUNTED)
def test_far_from_the_budget_nothing_is_looked_up(
    engine: Engine, response: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = row_of(plan_of(engine, PLAIN, response_format=response), engine, 50_000)
    assert row.landing is not None
    assert row.landing.step_effort().left <= 600  # what all searches of one step may take
    monkeypatch.setattr(type(row.landing), "_looked_up", lambda *_: pytest.fail("looked up"))
    for token in engine.tokenize(text):
        assert not row.is_landing()
        row.extend([token])
    assert row.error is None


@pytest.mark.parametrize("kind", ["json", "calls: tags", "lark"])
def test_a_row_that_is_taken_back_or_copied_lands_as_well(engine: Engine, kind: str) -> None:
    plan, chance = made(engine, kind), random.Random(kind)
    most = min_tokens(plan, engine) + 6
    row = row_of(plan, engine, most)
    history: list[int] = []
    for _ in range(12):
        for _ in range(chance.randint(1, 6)):
            if not row.is_done:
                history += [step(row, chance)]
        twin = row.fork()
        assert len(history) + len(written(twin, chance, most)) <= most
        assert twin.state.is_stopped
        history = history[: chance.randint(0, len(history))]
        row.sync(history)
    written(row, chance, most)
    assert row.state.is_stopped
    assert row.num_tokens <= most


def test_the_message_says_where_landing_began_and_which_calls_it_chose(engine: Engine) -> None:
    plan = made(engine, "calls: tags")
    most = min_tokens(plan, engine) + 4
    answer, chance = RowAnswer(plan, engine, max_tokens=most), random.Random(0)
    row = answer.sequence
    assert isinstance(row, RowSequence)
    control = row.landing
    assert control is not None
    while not answer.is_done:
        answer.tokens.append(step(row, chance))
    message = answer.message()
    assert message.landed == control.marks.begun
    assert message.landed is not None
    assert message.finish_reason == "tool_calls"
    events = parser_of(plan, engine).feed(message.token_ids[: message.landed])
    assert [call.landed for call in message.tool_calls].count(False) == Counter(map(type, events))[ToolCallEnd]
    assert message.tool_calls[-1].landed


def test_a_budget_below_the_least_is_refused_or_noted(engine: Engine) -> None:
    plan = made(engine, "json")
    least = min_tokens(plan, engine)
    noted = row_landing(plan, engine, FRESH, least - 1)
    assert noted.control is None
    assert noted.note == (
        f"the answer may be cut: {least - 1} tokens cannot hold the shortest answer found, which has {least}"
    )
    with pytest.raises(RequestError, match="tokens cannot hold the shortest answer found") as caught:
        row_landing(plan, engine, FRESH, least - 1, Budgeting(None, must_fit=True))
    assert caught.value.expected == f"at least {least}"
    assert row_landing(plan, engine, FRESH, least, Budgeting(None, must_fit=True)).control is None


def test_free_text_is_never_ended_and_never_opens_what_it_cannot_close(engine: Engine) -> None:
    """Cut text must not look finished; but a call that would be cut is not begun."""
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {
        "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}}}]  # fmt: skip
    plan = plan_of(engine, replace(FORMAT, reasoning=None), tools=tools)
    row = row_of(plan, engine, 20)
    (begin,) = engine.tokenize("<tool_call>")
    for _ in range(20):
        mask = row.token_mask()
        assert mask is not None
        assert begin in allowed_ids(mask.words)
        if row.is_landing():
            assert row.landing is not None
            assert row.lands(engine.tokenize("a")[0], row.landing.step_effort())
            assert not row.lands(begin, row.landing.step_effort())
        row.extend(engine.tokenize("a"))
    assert row.state.region is RegionName.CONTENT
    assert not row.is_done


@pytest.mark.parametrize(
    ("name", "max_tokens", "reason"),
    [
        ("long words", 3_000, "no end was found within"),
        ("a thousand items", 500, "500 tokens cannot hold the shortest"),
    ],
)
def test_an_end_that_is_not_found_or_too_far_is_said(engine: Engine, name: str, max_tokens: int, reason: str) -> None:
    plan = plan_of(engine, response_format=HOSTILE[name], thinking=False)
    limits = replace(time_limits(), landing_cpu_s=-1.0)
    with use_time_limits(limits if name == "long words" else time_limits()):
        landing = row_landing(plan, engine, FRESH, max_tokens)
    assert landing.control is None
    assert landing.note.startswith("the answer may be cut: ")
    assert reason in landing.note


def test_a_row_whose_last_token_is_exchanged_forgets_what_was_known_after_it(engine: Engine) -> None:
    """Assisted generation may take a draft token back and choose another: the history is as long as before."""
    plan = made(engine, "json")
    least = min_tokens(plan, engine)
    row = row_of(plan, engine, least + 8)
    nearest = []
    for last in ("a", '"', "a"):
        row.sync([*engine.tokenize('{"name": "Ad'), *engine.tokenize(last)])
        assert row.is_landing()
        nearest.append(row.landing_token())
    assert None not in nearest
    assert nearest[0] == nearest[2] != nearest[1]


def test_where_landing_began_is_forgotten_with_the_tokens_from_there_on(engine: Engine) -> None:
    row = row_of(plan_of(engine, response_format=guided.Regex("[a-z]{9}"), reasoning_effort="low"), engine, 60)
    thought, rest = engine.tokenize("<think>\na b"), engine.tokenize("\n</think>\n\nabc")
    control, seen = row.landing, []
    assert control is not None
    row.extend(thought[:1])  # before it the region is that of the content
    for token in (*thought[1:], *rest):
        row.is_landing()  # as a loop asks
        row.note_landing(token)
        row.extend([token])
        seen.append((control.marks.begun, control.marks.answer_begun))
    assert row.error is None
    begun, answer_begun = seen[-1]
    assert begun is not None
    assert answer_begun is not None
    assert answer_begun > len(thought)
    twin = row_of(row.plan, engine, 60)
    twin.extend(thought)
    twin.is_landing()
    twin.note_landing(rest[0])
    twin.sync([*thought, *rest[:1]])
    twin.sync(thought)  # the loop has not asked in between
    assert twin.landing is not None
    assert twin.landing.marks.begun is None
    row.sync([*thought, *rest][: answer_begun + 1])
    assert (control.marks.begun, control.marks.answer_begun) == (begun, answer_begun)
    row.sync([*thought, *rest][:answer_begun])
    assert (control.marks.begun, control.marks.answer_begun) == (begun, None)
    row.sync([])
    assert (control.marks.begun, control.marks.answer_begun) == (None, None)


def test_far_from_the_budget_a_torn_character_needs_no_search(engine: Engine) -> None:
    """Its rest is written before the way; the judge of that are the masks."""
    row = row_of(plan_of(engine, response_format=guided.Lark('start: "<" /[^!]*/ "!"')), engine, 600)
    tokens = {engine.token_bytes(i): i for i in range(engine.vocab_size)}
    for byte in "<a€ह😀".encode():
        assert row.is_landing()
        assert row.lands(tokens[bytes((byte,))], Effort(cpu_s=1.0, places=0)), row.state.tokens
        row.extend([tokens[bytes((byte,))]])
        twin = row.fork()
        while not twin.is_done:
            assert twin.is_landing()
            nearest = twin.landing_token()
            assert nearest is not None
            twin.extend([nearest])
        assert twin.error is None
        assert twin.num_tokens <= row.num_tokens + 6


def test_a_path_that_fits_is_taken_although_canonical_tokens_are_more(demo_guide: Any) -> None:
    """The critique `<` left 34 tokens for an end that has 34, its canonical ones 35: it was cut."""
    plan, engine = demo_guide.plan(reasoning_effort="cot", response_format=["yes", "no"]), demo_guide.engine
    text = "<think>\n<DRAFT>\na\n</DRAFT>\n<VERIFY>\nQ: a\nA: a\n</VERIFY>\n<CRITIQUE>\n<"
    ids = engine.tokenize(text)
    row = row_of(plan, engine, len(ids) + 34)
    for token in ids:
        assert not row.is_landing() or row.lands(token, row.landing.step_effort())
        row.extend([token])
    while not row.is_done:
        assert row.is_landing()
        row.extend([row.landing_token()])
    assert row.state.is_stopped
    assert row.state.num_tokens == len(ids) + 34


def test_the_shortest_answer_of_equal_plans_is_searched_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes give a new plan each time that they are read, and a limit below the effort one with a note."""
    plan = plan_of(engine, response_format=JsonSchema({"enum": ["searched once", 1]}), reasoning_effort="low")
    searched: list[Plan] = []
    shortest_end = LandingSearch.shortest_end

    def counted(search: LandingSearch, *args: Any, **kwargs: Any) -> Any:
        searched.append(plan)
        return shortest_end(search, *args, **kwargs)

    monkeypatch.setattr(LandingSearch, "shortest_end", counted)
    for one in (plan, decode_plan(encode_plan(plan)), with_limit_notes(plan, 60, 40), replace(plan, max_tokens=9)):
        assert row_landing(one, engine, FRESH, 40).control is not None
    assert len(searched) == 1
    row_landing(replace(plan, budgets=()), engine, FRESH, 40)  # the same grammar, another plan
    assert len(searched) == 2
