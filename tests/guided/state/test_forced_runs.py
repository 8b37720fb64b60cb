"""Runs of forced tokens are computed once; their masks are the engine's, however a position is reached."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.constraints import Choice, JsonSchema, Lark, Regex
from grammars.values.format import Ends, Format
from guided.bitmask import allowed_ids, num_words
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from guided.watchers.watch import SequenceWatcher
from tests.cases import slow_where
from tests.conftest import small_engine
from tests.judges.plans import MAY_REASON

_KEYS = {"type": "object", "additionalProperties": False, "required": ["the_first_key", "kind", "é日"]}
FORMATS: list[Any] = [
    JsonSchema(
        _KEYS
        | {
            "properties": {
                "the_first_key": {"type": "string", "maxLength": 4},
                "kind": {"enum": ["alphabetical", "alphanumerical", "beta"]},
                "é日": {"const": {"deep": [1, 2, {"deeper": "a constant of some length"}]}},
            }
        }
    ),
    Regex(r"(yes, of course|yes, perhaps|no)(, and more){0,3}"),
    Choice(["one way to say it", "one way to say another", "x"]),
    Lark('start: "forced text <think> spells a marker" | "<tool_call>then text" "</think>." | "x" /[a-c]+/'),
    JsonSchema({"type": "array", "items": {"enum": ["first", "fifth", 5]}, "uniqueItems": True, "maxItems": 3}),
    Choice(["A 😀's friend and 😀\nmore", "日本's 👩‍👧s <b>", "é's"]),  # tokens end inside of characters
]


def plan_of(engine: Engine, response_format: Any, **parts: Any) -> Plan:
    return compose(Parts(response_format=response_format, **parts), tokens=engine.tokens, format=MAY_REASON)


#: Real vocabularies of both kinds of byte tokens.
REAL = ("smollm2", "gemma3", "qwen3")


class MaskJudge:
    """The engine alone, asked for one mask after the other."""

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.plan, self.engine = plan, engine

    def mask(self, tokens: Any) -> np.ndarray | None:
        """The mask after ``tokens``; None where an end is open, which is not for the engine to say."""
        matcher = self.engine.pristine(self.plan, "fresh").deep_copy()
        assert matcher.consume_tokens(list(tokens))
        words = np.frombuffer(matcher.compute_bitmask(), dtype=np.int32)
        ids = allowed_ids(words)
        if any(i >= self.engine.vocab_size for i in ids) or matcher.is_accepting():
            return None
        return words[: num_words(self.engine.vocab_size)]


def check(state: GuidanceState, judge: MaskJudge) -> int:
    """1 where the judge could say that the mask is right."""
    mask = state.token_mask()
    expected = judge.mask(state.tokens)
    if expected is None or mask.is_repaired or mask.taken is not None:
        return 0
    assert allowed_ids(mask.words) == allowed_ids(expected), list(state.tokens)
    assert mask.forced == (allowed_ids(expected)[0] if len(allowed_ids(expected)) == 1 else None)
    assert not mask.end_ids
    return 1


def other_cut(state: GuidanceState, random: Random) -> int | None:
    """A shorter token that writes the beginning of the forced one, where the engine takes it."""
    forced = state.token_mask().forced
    if forced is None:
        return None
    data = state.engine.token_bytes(forced)
    ids = [i for i in state.engine.tokens_within(data) if i != forced and state.validate([i]) == 1]
    return random.choice(ids) if ids else None


def walk(state: GuidanceState, judge: MaskJudge, random: Random) -> int:
    """Write at random, with undoing, copies and other cuts; how many masks the judge found right."""
    checked = 0
    for _ in range(60):
        if state.is_stopped:
            state.rollback(random.randint(1, state.num_tokens))
        fresh = state.fork()
        fresh._mask = None  # the end is known without a mask
        assert fresh.end_id() == next(iter(state.fork().open_end_ids()), None)
        if random.random() < 0.9:  # else no caller asks for this mask
            checked += check(state, judge)
        way = random.random()
        if way < 0.05 and state.num_tokens:
            state.rollback(random.randint(1, min(6, state.num_tokens)))
        elif way < 0.1:
            other = state.fork()
            here = [allowed_ids(state.mask()), allowed_ids(other.mask())]
            assert here[0] == here[1]
            moved = other.fork()  # one of them goes on, and the others' masks stay
            if not moved.is_stopped:
                moved.commit(here[0][:1])
                moved.mask()
            assert [allowed_ids(state.mask()), allowed_ids(other.mask())] == here
            checked += check(other, judge)
            state = random.choice([state, other, moved])
        elif way < 0.2 and (token := other_cut(state, random)) is not None:
            state.commit([token])
        elif way < 0.22:
            state.reset()
        else:
            state.commit([random.choice(allowed_ids(state.mask()))])
    return checked


@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_masks_are_those_of_the_engine(engine: Engine, number: int) -> None:
    plan = plan_of(engine, FORMATS[number])
    judge, random = MaskJudge(plan, engine), Random(number)
    assert sum(walk(GuidanceState(plan, engine), judge, random) for _ in range(8)) > 50


@pytest.mark.parametrize("name", slow_where(lambda name: name in ("llama3_1", "gpt4o"), [*REAL, "llama3_1", "gpt4o"]))
def test_masks_are_those_of_the_engine_on_real_vocabularies(real_engine: Callable[[str], Engine], name: str) -> None:
    engine = real_engine(name)
    ends = Ends((engine.token_bytes(engine.tokens.end_ids[0]).decode(),))
    for number in (0, 1, 2, 4, 5):
        parts = Parts(response_format=FORMATS[number])
        plan = compose(parts, tokens=engine.tokens, format=Format("plain", ends=ends))
        judge, random = MaskJudge(plan, engine), Random(number)
        assert sum(walk(GuidanceState(plan, engine), judge, random) for _ in range(3)) > 30


class Counting:
    """A matcher that counts how often it worked out what comes next."""

    def __init__(self, matcher: Any) -> None:
        self.matcher, self.asked = matcher, 0

    def __getattr__(self, name: str) -> Any:
        if name in ("compute_ff_tokens", "unsafe_compute_mask_ptr"):
            self.asked += 1
        return getattr(self.matcher, name)


def test_a_long_constant_is_worked_out_once() -> None:
    """For each token of it the engine would work out all the rest."""
    engine = small_engine(special=("<|im_end|>",))  # it has not learnt of any token that nothing is forced after it
    state = GuidanceState(plan_of(engine, Regex("(a|b)" + "constant " * 200 + "[xy]")), engine)
    matcher = state._matcher.current = Counting(state._matcher.current)
    state.commit(np.int64(engine.tokenize("a")[0]))  # what an argmax gives
    num_forced = 0
    while (forced := state.token_mask().forced) is not None:
        state.commit([forced])
        num_forced += 1
    assert num_forced == state.counters.forced > 200
    assert matcher.asked <= 5


def test_a_watched_constant_is_worked_out_once_where_it_repeats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the run the watcher is not asked: one reading of the whole run has shown that it repeats nothing."""
    engine = small_engine(special=("<|im_end|>",))
    name = "constant" * 50
    schema = {"type": "object", "properties": {name: {"const": name}}, "required": [name]}
    state = GuidanceState(plan_of(engine, JsonSchema(schema)), engine)
    assert state.plan.watchers
    matcher = state._matcher.current = Counting(state._matcher.current)
    asked = []
    plain = SequenceWatcher.may_restrict
    monkeypatch.setattr(SequenceWatcher, "may_restrict", lambda *args: asked.append(args) or plain(*args))
    state.commit(engine.tokenize('{"'))
    while (forced := state.token_mask().forced) is not None:
        state.commit([forced])
    assert state.counters.forced > 200
    assert matcher.asked <= 5
    assert len(asked) <= 10


def test_whether_a_run_begins_is_learnt(engine: Engine) -> None:
    """After a token that began a forced run the last time, only the run is computed; else only the mask."""
    plan = plan_of(engine, Regex("(a|b)(c|d){20}constant (c|d)x"))
    asked = []
    for _ in range(3):
        state = GuidanceState(plan, engine)
        state.commit([*engine.tokenize("a"), *engine.tokenize("c") * 19])
        matcher = state._matcher.current = Counting(state._matcher.current)
        state.mask()
        state.commit(engine.tokenize("d"))
        state.mask()
        asked.append(matcher.asked)
    assert asked[0] > asked[1] == asked[2] == 2  # the first place is known to be free, the second to be forced


def test_a_space_is_not_forced_for_the_character_that_stands_for_it(real_engine: Callable[[str], Engine]) -> None:
    """SentencePiece writes spaces as U+2581: the engine took a client's for one, and refused it then."""
    for name in ("gemma3", "llama2", "smollm2"):
        engine = real_engine(name)
        ends = Ends((engine.token_bytes(engine.tokens.end_ids[0]).decode(),))
        for text in ("x▁▂▃▅", "[▁x", "▁ ▁", "a▁b c▁"):
            parts = Parts(response_format=Choice([text, "zz"]))
            state = GuidanceState(compose(parts, tokens=engine.tokens, format=Format("plain", ends=ends)), engine)
            written = b""
            while written != text.encode():
                token = next(i for i in allowed_ids(state.mask()) if engine.token_bytes(i)[:1] != b"z")
                state.commit([token])
                written += engine.token_bytes(token)
            assert state.counters.recovered == 0
