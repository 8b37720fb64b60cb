"""A panic of the engine ends the row that met it, and neither its neighbours nor later calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from llguidance import LLParserLimits

from grammars.plan.plan import Plan
from grammars.values.constraints import Lark, Regex
from grammars.values.format import Format
from guided.bitmask import allowed_ids, is_allowed
from guided.engine import engine as compile
from guided.engine.engine import Engine
from guided.rows.sequence import RowSequence
from guided.state.mask import MaskReader
from guided.state.state import GuidanceState
from special_tokens.errors import GuidanceError, LimitExceeded, MatcherFailed, TokenRefused
from tests.judges.plans import MAY_REASON, PLAIN, plan_of

#: After "3" only an end may follow, which llguidance 1.9.1 does not see: it fails an assertion of its own.
PANICS = r"""start: NUMBER
NUMBER: /[0-9]{1,9}/ & /[0-2][0-9]{0,3}|3(?:\.5)?/
"""

FEW_STATES = LLParserLimits(
    initial_lexer_fuel=1_000_000, step_lexer_fuel=20_000_000, max_lexer_states=300, verbose_errors=False
)


@pytest.fixture
def plan(engine: Engine) -> Plan:
    return plan_of(engine, Format("plain"), response_format=Lark(PANICS))


def write(state: GuidanceState, text: str) -> None:
    for char in text:
        state.mask()
        state.commit(state.engine.tokenize(char))
    state.mask()


def fail(plan: Plan, engine: Engine) -> GuidanceState:
    """A state that panicked, and with it the lock of all matchers of the plan that were there."""
    failed = GuidanceState(plan, engine)
    with pytest.raises(MatcherFailed, match="panic"):
        write(failed, "3")
    return failed


def test_the_next_request_does_not_meet_what_failed(engine: Engine, plan: Plan) -> None:
    failed = GuidanceState(plan, engine)
    GuidanceState(plan, engine)
    before = engine.cache_info()
    with pytest.raises(MatcherFailed, match="panic"):
        write(failed, "3")
    assert engine.cache_info().entries == before.entries - 1
    assert engine.cache_info().size_bytes < before.size_bytes
    later = GuidanceState(plan, engine)
    write(later, "12")
    assert later.is_accepting
    assert later.counters.recovered == 0
    failed.reset()
    write(failed, "20")
    assert failed.is_accepting
    with pytest.raises(MatcherFailed, match="panic"):
        write(GuidanceState(plan, engine), "3")


def one(engine: Engine, text: str) -> int:
    (token,) = engine.tokenize(text)
    return token


#: What a sequence may be asked for when another one has panicked.
ASKED: dict[str, Callable[[GuidanceState], Any]] = {
    "mask": lambda state: allowed_ids(state.mask()),
    "allows": lambda state: state.allows(one(state.engine, "2")),
    "open_end_ids": lambda state: state.open_end_ids(),
    "is_accepting": lambda state: state.is_accepting,
    "validate": lambda state: state.validate(state.engine.tokenize("234")),
    "validate an end": lambda state: state.validate([*state.engine.tokenize("2"), state.engine.tokens.end_ids[0]]),
    "ff_tokens": lambda state: state.ff_tokens(),
    "commit": lambda state: state.commit(state.engine.tokenize("2")),
    "commit an end": lambda state: state.commit([state.engine.tokens.end_ids[0]]),
    "rollback": lambda state: state.rollback(1),
    "fork": lambda state: allowed_ids(state.fork().mask()),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("kind", ["fresh", "fork", "threads"])
def test_a_sequence_goes_on_when_another_one_panics(
    engine: Engine, plan: Plan, ask: Callable[[GuidanceState], Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, state = GuidanceState(plan, engine), GuidanceState(plan, engine)
    for each in (judge, state):
        write(each, "10")
    if kind == "fork":
        judge, state = judge.fork(), state.fork()
    for each in (judge, state):
        each.rollback(1)  # no mask is known here
    assert judge.is_accepting
    expected = ask(judge), allowed_ids(judge.mask()), list(judge.tokens), judge.is_stopped
    fail(plan, engine)
    real = engine.pristine

    def broken(*args: Any) -> Any:
        found = real(*args)
        failed = found.deep_copy()
        failed.consume_tokens(engine.tokenize("3"))
        failed.compute_bitmask()
        return found

    with monkeypatch.context() as patch:
        if kind == "threads":  # only a matcher of its own is out of reach of the rows of other threads
            patch.setattr(engine, "pristine", broken)
            fail(plan, engine)
        assert (ask(state), allowed_ids(state.mask()), list(state.tokens), state.is_stopped) == expected
        if not state.is_stopped:
            write(state, "1")
    assert state.is_accepting
    assert state.counters.recovered == 1
    assert state.counters.masks == judge.counters.masks + (not state.is_stopped)
    write(GuidanceState(plan, engine), "12")


def test_what_is_refused_stays_refused(engine: Engine, plan: Plan) -> None:
    state = GuidanceState(plan, engine)
    write(state, "1")
    fail(plan, engine)
    with pytest.raises(TokenRefused):
        state.commit(engine.tokenize("x"))
    write(state, "2")
    assert (state.counters.recovered, state.counters.commits) == (1, 2)


def test_a_budget_is_closed_with_a_matcher_compiled_anew(engine: Engine) -> None:
    plan = plan_of(engine, MAY_REASON, response_format=Lark(PANICS), reasoning_effort="minimal")
    judge, state, failed = (GuidanceState(plan, engine) for _ in range(3))
    thought = [*engine.tokenize("<think>\n"), *engine.tokenize("x") * 64]
    answer = [*engine.tokenize("</think>\n\n"), *engine.tokenize("1")]
    for each in (judge, state):
        each.commit(thought)
    expected = list(follow(judge, answer))
    with pytest.raises(MatcherFailed, match="panic"):
        list(follow(failed, [*thought[:3], *answer[:-1], *engine.tokenize("3"), 0]))
    assert list(follow(state, answer)) == expected
    assert state.is_accepting
    assert (state.counters.recovered, judge.counters.recovered) == (1, 0)


def follow(state: GuidanceState, tokens: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Return the allowed and the forced tokens before each of ``tokens``."""
    for token in tokens:
        yield allowed_ids(state.mask()), state.ff_tokens()
        state.commit([token])


def test_every_sequence_recovers_once_and_later_requests_compile_once(engine: Engine, plan: Plan) -> None:
    states = [GuidanceState(plan, engine) for _ in range(4)]
    for state in states:
        write(state, "10")
    fail(plan, engine)
    before = engine.cache_info()
    for state in states:
        write(state, "1")
        state.fork().mask()
    assert [state.counters.recovered for state in states] == [1, 1, 1, 1]
    assert engine.cache_info().misses == before.misses
    fail(plan, engine)
    assert engine.cache_info().misses == before.misses + 1
    for state in states:
        write(state, "2")
        assert list(state.tokens) == [one(engine, digit) for digit in "1012"]
    assert [state.counters.recovered for state in states] == [1, 1, 1, 1]


def test_a_fork_of_a_sequence_that_recovered_recovers_when_the_other_panics(engine: Engine, plan: Plan) -> None:
    """The beams of one prompt share the matcher that was compiled for it."""
    state = GuidanceState(plan, engine)
    fail(plan, engine)
    state.mask()
    twin = state.fork()
    with pytest.raises(MatcherFailed, match="assertion"):
        write(twin, "3")
    write(state, "12")
    assert state.is_accepting
    assert state.counters.recovered == 2


def test_what_failed_itself_fails_again_and_goes_on_when_it_is_taken_back(engine: Engine, plan: Plan) -> None:
    """A draft that the engine panics on is taken back like any other."""
    neighbour = GuidanceState(plan, engine)
    failed = fail(plan, engine)
    twin = failed.fork()
    for each in (failed, twin):
        with pytest.raises(MatcherFailed, match="assertion"):
            each.mask()
    failed.rollback(1)
    write(failed, "11")
    assert failed.is_accepting
    with pytest.raises(MatcherFailed, match="assertion"):
        write(neighbour, "3")


def test_a_fork_at_the_place_of_a_panic_meets_it_itself(engine: Engine, plan: Plan) -> None:
    state = GuidanceState(plan, engine)
    state.commit(engine.tokenize("3"))
    twin = state.fork()
    for each in (state, twin):
        with pytest.raises(MatcherFailed, match="assertion"):
            each.mask()
    assert twin.counters.recovered == 0


def test_only_the_row_that_panicked_has_an_error(engine: Engine, plan: Plan) -> None:
    rows = [RowSequence(plan, engine, row=r) for r in range(3)]
    for row in rows:
        assert row.token_mask() is not None
        row.extend([one(engine, "3" if row.row == 1 else "1")])
        row.token_mask()
    for row in rows:
        row.extend([one(engine, "2")])
        row.token_mask()
    assert [type(row.error) for row in rows] == [type(None), MatcherFailed, type(None)]
    assert [row.guidance().recovered for row in rows] == [1, 0, 1]
    for row in (rows[0], rows[2]):
        row.extend([one(engine, "0")])
        assert row.token_mask() is not None
        assert row.guidance().recovered == 1
    rows[1].sync([one(engine, "1")])
    assert rows[1].error is None
    assert rows[1].token_mask() is not None


def test_a_row_that_breaks_its_own_copies_ends(engine: Engine, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watchers try tokens on copies: a panic there would come again with every new matcher."""
    real = MaskReader.next

    def next_one(reader: MaskReader, matcher: Any, *args: Any) -> Any:
        copy = matcher.deep_copy()
        copy.consume_tokens(engine.tokenize("3"))
        copy.compute_bitmask()
        return real(reader, matcher, *args)

    state = GuidanceState(plan, engine)
    with monkeypatch.context() as patch:
        patch.setattr(MaskReader, "next", next_one)
        with pytest.raises(MatcherFailed, match="Poison"):
            state.mask()
    state.reset()
    write(state, "1")
    assert state.is_accepting


def test_the_states_that_one_sequence_uses_up_are_missed_by_no_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matchers of one grammar share the lexer's states, and where none are left the engine refuses all tokens."""
    monkeypatch.setattr(compile, "LIMITS", FEW_STATES)
    plan = plan_of(engine, Format("plain"), response_format=Regex("(a|b)*a(a|b){12}c"))
    greedy, judge, neighbour, idle = (GuidanceState(plan, engine) for _ in range(4))
    text = engine.tokenize("a") + engine.tokenize("b") * 3
    expected = list(follow(judge, text))
    neighbour.mask()
    dice = Random(0)
    with pytest.raises(LimitExceeded, match="too many states"):
        list(follow(greedy, [one(engine, dice.choice("ab")) for _ in range(3000)]))
    for state in (neighbour, idle, GuidanceState(plan, engine)):
        assert list(follow(state, text)) == expected
    assert greedy.counters.recovered > 0  # it went on as long as its own tokens left it states
    assert neighbour.counters.recovered == 1


AMONG_A_AND_B: dict[str, Callable[[GuidanceState], Any]] = {
    "mask": lambda state: allowed_ids(state.mask()),
    "validate": lambda state: state.validate(state.engine.tokenize("b") + state.engine.tokenize("a")),
    "commit": lambda state: state.commit(state.engine.tokenize("b") + state.engine.tokenize("a")),
    "commit two after a mask": lambda state: (state.mask(), AMONG_A_AND_B["commit"](state))[1],
    "commit after a rollback": lambda state: (state.rollback(2), AMONG_A_AND_B["commit"](state))[1],
    "is_accepting": lambda state: state.is_accepting,
    "commit an end": lambda state: state.commit([state.engine.tokens.end_ids[0]]),
}


@pytest.mark.parametrize("ask", AMONG_A_AND_B.values(), ids=AMONG_A_AND_B)
@pytest.mark.parametrize("text", ["", "aba" * 5, "bba" * 7 + "c"])
def test_nothing_is_answered_wrongly_where_no_states_are_left(
    engine: Engine, ask: Callable[[GuidanceState], Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine says no then, and nothing else: only its mask can tell that it should have said yes."""
    plan = plan_of(engine, Format("plain"), response_format=Regex("(a|b)*a(a|b){12}c?"))
    judge = GuidanceState(plan, engine)
    engine.forget(plan, judge.entry.name, engine.pristine(plan, judge.entry.name))
    monkeypatch.setattr(compile, "LIMITS", FEW_STATES)
    state = GuidanceState(plan, engine)
    greedy, dice = state.fork(), Random(0)

    def asked(each: GuidanceState) -> Any:
        try:
            return ask(each), list(each.tokens), each.is_stopped
        except GuidanceError as error:
            return type(error), list(each.tokens)

    for each in (judge, state):
        each.commit([one(engine, char) for char in text])
    while not greedy.counters.recovered:  # until it has used up the states of both
        greedy.mask()
        greedy.commit([one(engine, dice.choice("ab"))])
    assert asked(state) == asked(judge)


@pytest.mark.parametrize("first", [100, *(pytest.param(first, marks=pytest.mark.slow) for first in (101, 102))])
def test_the_last_state_of_all_spoils_no_mask(engine: Engine, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """With it gone the engine took the sentinel's spelling for text, without an error: the mask was one "[" alone."""
    plan = plan_of(engine, PLAIN, response_format=Regex("(a|b)*a(a|b){12}c"))
    monkeypatch.setattr(compile, "LIMITS", FEW_STATES)
    text = [one(engine, char) for char in "abbababbaabab"]
    num_recovered = 0
    for size in range(first, 250, 3):
        engine.forget(plan, "fresh", engine.pristine(plan, "fresh"))
        state = GuidanceState(plan, engine)
        greedy, dice = state.fork(), Random(0)
        for token in text:
            state.mask()
            state.commit([token])
        for _ in range(size):
            greedy.mask()
            greedy.commit([one(engine, dice.choice("ab"))])
        state.mask()
        state.commit([one(engine, "c")])
        assert allowed_ids(state.mask()) == [engine.tokens.end_ids[0]]
        assert state.is_accepting
        num_recovered += state.counters.recovered
        state.commit([engine.tokens.end_ids[0]])
    assert num_recovered


def test_who_wears_the_lexer_out_ends_alone(engine: Engine) -> None:
    """Its expressions are shared: neighbours and later requests died of what one text had made of them."""
    lark = "start: TEXT\nTEXT: /[ab]+c/ & ~/(?s:.*)a(?s:.{25})b(?s:.*)/"
    plan = plan_of(engine, PLAIN, response_format=Lark(lark))
    greedy, dice = GuidanceState(plan, engine), Random(0)
    neighbour = greedy.fork()

    def write_on() -> None:
        for _ in range(200):
            greedy.mask()
            greedy.commit([one(engine, dice.choice("ab"))])

    with pytest.raises(LimitExceeded, match="too many expressions"):
        write_on()
    for state in (neighbour, GuidanceState(plan, engine)):
        for char in "bbc":
            assert is_allowed(state.mask(), one(engine, char))
            state.commit([one(engine, char)])
        assert state.is_accepting
