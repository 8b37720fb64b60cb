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
from guided.landing.byte_classes import Classes
from guided.landing.control import LandingControl
from guided.landing.effort import Effort
from guided.landing.landing import LandingSearch
from guided.landing.options import Budgeting, LandingOptions, with_limit_notes
from guided.landing.row_landing import row_landing
from guided.landing.search import _Node as SearchNode
from guided.output.parser import ToolCallEnd
from guided.rows.answer import RowAnswer, read_answer
from guided.rows.reader import parser_of
from guided.rows.sequence import RowSequence
from guided.state.entry import FRESH
from guided.state.state import GuidanceState
from special_tokens.errors import RequestError
from tests.cases import seeds, slow_where
from tests.conftest import ROOT
from tests.guided.landing.test_landing import HOSTILE, KINDS, check_value, made
from tests.judges.plans import FORMAT, drawn, plan_of

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
    """Rows and their tokens within the least number of tokens and ``extras`` more; each of them has ended."""
    least = min_tokens(plan, engine)
    for extra in extras:
        row = make(plan, engine, least + extra)
        tokens = write(row, chance, least + extra)
        assert row.state.is_stopped, (extra, b"".join(map(engine.token_bytes, tokens)))
        yield row, tokens


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in FEW else pytest.mark.slow) for k in KINDS])
def test_an_answer_is_whole_within_any_budget_that_can_hold_one(engine: Engine, kind: str, seed: int) -> None:
    plan, chance = made(engine, kind), random.Random(f"{kind} {seed}")
    least = min_tokens(plan, engine)
    for extra in BUDGETS if seed else chance.sample(BUDGETS, 3):
        row = row_of(plan, engine, least + extra)
        tokens = written(row, chance, least + extra)
        if kind == "free text":
            continue  # it may be cut anywhere
        assert row.state.is_stopped, (extra, b"".join(map(engine.token_bytes, tokens)))
        check_value(plan, engine, tokens)


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


def random_schema(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    kind = chance.choice(["object", "array", "string", "number", "enum", "any of"] if depth < 3 else ["string", "enum"])
    inner = lambda: random_schema(chance, depth + 1)  # noqa: E731
    match kind:
        case "object":
            names = chance.sample(["a", "name", "items", "kind", "long name"], chance.randint(0, 4))
            needed = [name for name in names if chance.random() < 0.6]
            return {"type": "object", "properties": {name: inner() for name in names}, "required": needed,
                    "additionalProperties": chance.choice([False, {"type": "integer"}])}  # fmt: skip
        case "array":
            least = chance.randint(0, 4)
            return {"type": "array", "items": inner(), "minItems": least, "uniqueItems": chance.random() < 0.2}
        case "string":
            return {"type": "string", **chance.choice([{}, {"minLength": 9}, {"pattern": "^[a-f]{3}(-[0-9]{12})?$"}])}
        case "number":
            return {"type": chance.choice(["integer", "number"]), "minimum": chance.choice([-5, 1000])}
        case "enum":
            return {"enum": chance.sample([1, "x", None, "a long text to write", [1, 2, 3], {"k": "v"}], 3)}
    return {"anyOf": [inner(), inner()]}


def _without(schema: Any, keywords: set[str]) -> Any:
    if isinstance(schema, list):
        return [_without(part, keywords) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without(part, keywords) for key, part in schema.items() if key not in keywords}


@pytest.mark.parametrize("seed", seeds(60, default=8))
def test_random_schemas_land(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    schema = {"type": "object", "properties": {"first": random_schema(chance), "second": random_schema(chance)},
              "required": ["second"], "additionalProperties": False}  # fmt: skip
    try:
        plan = plan_of(engine, response_format=JsonSchema(schema), thinking=False)
    except guided.GuidedError:
        pytest.skip("no value is valid")
    least = min_tokens(plan, engine)
    relaxed = {row.keyword for row in plan.schema_report.relaxed}
    assert relaxed <= {"uniqueItems"}
    enforced = _without(schema, relaxed)
    for extra in chance.sample(BUDGETS, 3):
        row = row_of(plan, engine, least + extra)
        tokens = written(row, chance, least + extra)
        assert row.state.is_stopped, (schema, extra, b"".join(map(engine.token_bytes, tokens)))
        jsonschema.validate(json.loads(read_answer(tokens, plan, engine).content or ""), enforced)


def landed_answers(engine: Engine, kind: str, budgets: Sequence[int]) -> list[list[int]]:
    """Answers of one plan within the least number of tokens and ``budgets`` more, of samplers made from these."""
    plan = made(engine, kind)
    least = min_tokens(plan, engine)
    chances = (random.Random(f"{kind} {extra}") for extra in budgets)
    return [
        written(row_of(plan, engine, least + extra), chance, least + extra)
        for extra, chance in zip(budgets, chances, strict=True)
    ]


def test_what_was_learned_of_bytes_at_one_place_is_not_believed_at_another(engine: Engine) -> None:
    """After both letters all letters are allowed; after each, another one leads to the nearest end."""
    plan = plan_of(engine, response_format=guided.Regex("A(k|[a-jl-z][a-z]{30})!|B(m|[a-ln-z][a-z]{30})!"))
    entry = plan.entries[-1].name
    search = LandingSearch(plan, engine, entry=entry)
    state = GuidanceState(plan, engine, entry=entry)
    first, second = engine.tokenize("AB")
    classes = Classes()
    for token, expected in ((first, b"k!"), (second, b"m!"), (first, b"k!")):
        matcher, after = search.matcher(), state.fork()
        after.commit([token])
        assert matcher.feed(state.regions.symbols(token))
        tree = search.tree(after, matcher, search.follow(after)[1], classes)
        symbols = next(search.ends(tree, Effort(cpu_s=1.0, places=50))).symbols
        assert bytes(symbols or ()) == expected


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


@pytest.mark.parametrize("name", HOSTILE)
def test_searches_near_the_budget_end_without_a_clock(
    engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what lands does not depend on how busy the machine is: the number of places ends a search."""
    plan = plan_of(engine, response_format=HOSTILE[name], thinking=False)
    search = LandingSearch(plan, engine)
    monkeypatch.setattr("time.thread_time", lambda: 0.0)
    state, effort = GuidanceState(plan, engine), Effort(cpu_s=1.0, places=50)
    tree = search.tree(state, search.matcher(), search.follow(state)[1], Classes())
    assert sum(1 for _ in search.ends(tree, effort)) < 50
    assert -5 <= effort.left < 50  # the last place may look at all bytes
    entered, look = [], SearchNode.look
    monkeypatch.setattr(SearchNode, "look", lambda node: entered.append(node) or look(node))
    search.shortest_end(state)
    assert len(entered) <= Effort(0.0).left


#: One key must match several patterns at once: after some of its characters no short search finds the rest.
ONE_KEY = {
    "type": "object",
    "allOf": [
        *({"not": {"propertyNames": {"not": {"pattern": p}}}} for p in ("a5b", "(^[^5]*$)|7", "(^[^7]*$)|9")),
        {"propertyNames": {"pattern": "^([a-z][0-9])+$"}},
        {"maxProperties": 1},
    ],
}


@pytest.mark.parametrize("seed", range(3))
def test_a_key_that_must_match_several_patterns_is_tried_from_the_beginning(engine: Engine, seed: int) -> None:
    plan = plan_of(engine, response_format=JsonSchema(ONE_KEY), thinking=False)
    most = min_tokens(plan, engine) + 100
    row = row_of(plan, engine, most)
    tokens = written(row, random.Random(seed), most)
    assert row.state.is_stopped, b"".join(map(engine.token_bytes, tokens))


def test_far_from_the_budget_nothing_is_looked_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = made(engine, "recursive json")
    row = row_of(plan, engine, 5_000)
    assert row.landing is not None
    monkeypatch.setattr(type(row.landing), "_looked_up", lambda *_: pytest.fail("looked up"))
    for token in engine.tokenize('{"v": 1, "kids": [{"v": 22, "kids": ['):
        assert not row.is_landing()
        row.extend([token])


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


def test_a_draft_that_is_taken_back_changes_no_decision(engine: Engine) -> None:
    """But for what a search has learned of bytes since: it may find another end where few tokens are left."""
    items = {
        "type": "array",
        "items": {"type": "string", "pattern": "^.+-[0-9]{6}$"},
        "minItems": 2,
        "uniqueItems": True,
    }
    schema = {"type": "object", "properties": {"a": items, "b": {"type": "integer"}}, "required": ["a", "b"],
              "additionalProperties": False}  # fmt: skip
    plan = plan_of(engine, replace(FORMAT, reasoning=None), response_format=JsonSchema(schema))
    least = min_tokens(plan, engine)
    compared = changed = 0
    for extra in (1, 10, 25, 40, 55):
        chance, row = random.Random(extra), row_of(plan, engine, least + extra)
        while not row.is_done and row.num_tokens < least + extra:
            mask = row.token_mask()
            assert mask is not None
            order = list(drawn(allowed_ids(mask.words), engine, chance))
            landing = row.landing
            if row.is_landing() and landing is not None:
                twin, draft, effort = landing.fork(), row.state.fork(), landing.step_effort()
                found = [row.lands(token, effort) for token in order]
                draft.commit(order[:1])
                if not draft.is_stopped:
                    twin.is_near(draft)
                    twin.rolled_back(row.num_tokens)
                    assert twin.is_near(row.state)
                    compared, effort = compared + 1, twin.step_effort()
                    changed += found != [twin.allows(row.state, token, effort) for token in order]
                order = [token for token, lands in zip(order, found, strict=True) if lands] or order
                order = order if any(found) else [row.landing_token() or order[0]]
            row.extend(order[:1])
        assert row.state.is_stopped
    assert compared > 200
    assert changed <= compared // 50


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


def test_a_text_of_one_length_is_the_models_own_to_its_end(engine: Engine) -> None:
    """The rest of the way fits after other characters, so none of them costs a search or is refused."""
    schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    plan = plan_of(engine, replace(FORMAT, reasoning=None), response_format=JsonSchema(schema))
    chance, row = random.Random(0), row_of(plan, engine, min_tokens(plan, engine) + 1)
    row.extend(engine.tokenize('"'))
    wanted = [chance.choice("0123456789abcdef") for _ in range(64)]
    for character in wanted:
        (token,) = engine.tokenize(character)
        assert row.token_mask() is not None
        if row.is_landing():
            assert row.landing is not None
            effort = row.landing.step_effort()
            before = effort.left
            assert row.lands(token, effort)
            assert before - effort.left < 20
        row.extend([token])
    assert "".join(wanted) in engine.ll_tokenizer.decode_bytes(list(row.state.tokens)).decode()


def test_far_from_the_budget_a_torn_character_needs_no_search(engine: Engine) -> None:
    """Its rest is written before the way; the judge of that are the masks."""
    plan = plan_of(engine, response_format=guided.Lark('start: "<" /[^!]*/ "!"'))
    row = row_of(plan, engine, 600)
    for text in ("<", "a", "€", "ह", "😀"):
        for byte in text.encode():
            token = next(i for i in range(engine.vocab_size) if engine.token_bytes(i) == bytes((byte,)))
            assert row.is_landing()
            assert row.lands(token, Effort(cpu_s=1.0, places=0)), (text, byte)
            row.extend([token])
            twin = row.fork()
            while not twin.is_done:
                assert twin.is_landing()
                nearest = twin.landing_token()
                assert nearest is not None
                assert twin.state.allows(nearest)
                twin.extend([nearest])
            assert twin.error is None
            assert twin.num_tokens <= row.num_tokens + 6


@pytest.mark.parametrize("extra", [0, 1, 2, 5, 20, 40])
def test_what_costs_far_more_than_is_left_is_not_begun(engine: Engine, extra: int) -> None:
    """Searches for the end of thirty members find none that is near; the empty list is the answer that fits."""
    keys = {f"key_number_{i}": {"type": "integer"} for i in range(30)}
    schema = {"type": "array", "items": {"type": "object", "properties": keys, "required": [*keys]}}
    plan = plan_of(engine, response_format=schema)
    most = min_tokens(plan, engine) + extra
    row, written = row_of(plan, engine, most), b""
    for wanted in b"[{":
        assert row.token_mask() is not None
        token = engine.tokenize(chr(wanted))[0]
        if row.is_landing():
            assert row.landing is not None
            lands = row.lands(token, row.landing.step_effort(), is_own=True)
            token = token if lands else row.landing_token()  # type: ignore[assignment]
        row.extend([token])
        written += engine.token_bytes(token)
    assert written == b"[]"


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
