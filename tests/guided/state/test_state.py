"""Laws of one guided sequence: mask, ends, undo, forced, budgets, and failing closed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import regex
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan, RegionName
from grammars.values.constraints import Choice, Lark, Regex
from grammars.values.format import Ends, Format
from guided.bitmask import allocate_bitmask, allowed_ids, is_allowed, num_words
from guided.engine.engine import Engine, grammar_bytes
from guided.state.state import GuidanceState
from special_tokens.errors import GuidanceError, MatcherFailed
from tests.cases import costly
from tests.judges.plans import MAY_REASON


def plan_of(engine: Engine, format: Format = MAY_REASON, **parts: Any) -> Plan:
    return compose(Parts(**parts), tokens=engine.tokens, format=format)


def state_of(engine: Engine, format: Format = MAY_REASON, **parts: Any) -> GuidanceState:
    return GuidanceState(plan_of(engine, format, **parts), engine)


def mask(state: GuidanceState) -> np.ndarray:
    words = allocate_bitmask(1, state.engine.vocab_size)
    state.fill_bitmask(words)
    return words[0].copy()


def allowed(state: GuidanceState) -> list[int]:
    return allowed_ids(mask(state))


def write(state: GuidanceState, text: str) -> list[int]:
    """Commit ``text`` by canonical tokens, each of which the mask must allow."""
    ids = state.engine.tokenize(text)
    for token in ids:
        assert is_allowed(mask(state), token), (text, state.engine.token_bytes(token))
        state.commit([token])
    return ids


def end_of(engine: Engine) -> int:
    return engine.tokens.end_ids[0]


# -- the mask law


@costly
@given(
    options=st.lists(st.text('ab"\\\né日', min_size=1, max_size=5), min_size=1, max_size=6, unique=True),
    data=st.data(),
)
def test_mask_on_a_finite_set_equals_brute_force(plain_engine: Engine, options: list[str], data: st.DataObject) -> None:
    texts = [option.encode() for option in options]
    state = state_of(plain_engine, response_format=Choice(options))
    written = b""
    while not state.is_stopped:
        ids = set(allowed(state))
        alive = {
            i
            for i in range(plain_engine.vocab_size)
            if i not in plain_engine.tokens.marker_ids
            and (piece := plain_engine.token_bytes(i))
            and any(text.startswith(written + piece) for text in texts)
        }
        may_end = written in texts
        assert (end_of(plain_engine) in ids) == may_end
        ids.discard(end_of(plain_engine))
        assert ids <= alive
        if len(ids) != 1:  # where bytes are forced the engine's mask is the one canonical token
            assert ids == alive
        if not ids or (may_end and data.draw(st.booleans())):
            state.commit([end_of(plain_engine)])
        else:
            token = data.draw(st.sampled_from(sorted(ids)))
            written += plain_engine.token_bytes(token)
            state.commit([token])
    assert written in texts


PATTERNS = ["[a-c]{2,4}x?", "(?:ab|a)*c", "[^b]{0,3}b", "a+(?:\\.[0-9]{1,2})?", "(?:true|false|null)"]


@costly
@given(pattern=st.sampled_from(PATTERNS), data=st.data())
def test_every_token_of_the_mask_keeps_a_regex_alive(plain_engine: Engine, pattern: str, data: st.DataObject) -> None:
    state = state_of(plain_engine, response_format=Regex(pattern))
    judge = regex.compile(pattern)
    written = b""
    for _ in range(12):
        ids = set(allowed(state))
        assert (end_of(plain_engine) in ids) == bool(judge.fullmatch(written.decode("utf-8", "ignore")))
        ids.discard(end_of(plain_engine))
        for token in sorted(ids)[:: max(1, len(ids) // 40)]:
            piece = written + plain_engine.token_bytes(token)
            text = piece.decode("utf-8", "ignore")  # an unfinished character is alive as long as its text is
            assert judge.fullmatch(text, partial=True), (pattern, piece)
        if not ids:
            return
        token = data.draw(st.sampled_from(sorted(ids)))
        written += plain_engine.token_bytes(token)
        state.commit([token])


def test_padding_bits_and_sentinels_never_show(engine: Engine) -> None:
    state = state_of(engine, reasoning_effort="low")
    words = np.full((1, num_words(engine.vocab_size)), -1, dtype=np.int32)
    state.fill_bitmask(words)
    assert max(allowed_ids(words[0])) < engine.vocab_size


# -- ends


def test_an_incomplete_output_may_not_end_and_a_complete_one_may(engine: Engine) -> None:
    state = state_of(engine, response_format=Choice(["yes", "yesterday"]))
    assert end_of(engine) not in allowed(state)
    assert not state.is_accepting
    write(state, "yes")
    assert state.is_accepting
    assert end_of(engine) in allowed(state)
    state.commit([end_of(engine)])
    assert state.is_stopped
    assert state.stop_reason.token_id == end_of(engine)
    assert state.stop_reason.region is RegionName.RESPONSE


def test_every_end_of_the_set_ends_the_answer(engine: Engine) -> None:
    tokens = engine.tokens.add_end("<|endoftext|>")
    plan = compose(Parts(response_format=Choice(["a"])), tokens=tokens, format=MAY_REASON)
    for end in tokens.end_ids:
        state = GuidanceState(plan, engine)
        write(state, "a")
        assert is_allowed(mask(state), end)
        state.commit([end])
        assert state.is_stopped


def test_no_end_inside_free_text_before_its_time(engine: Engine) -> None:
    state = state_of(engine, reasoning_effort="low")
    state.commit([engine.tokens.id_of("<think>")])  # type: ignore[list-item]
    write(state, "hm")
    assert end_of(engine) not in allowed(state)


def test_without_any_end_token_a_complete_answer_stops_by_itself(plain_engine: Engine) -> None:
    format = Format("endless", ends=Ends(not_ends=("<|im_end|>",)))
    state = state_of(plain_engine, format, response_format=Choice(["ab"]))
    assert not state.plan.end_ids()
    write(state, "ab")
    assert state.is_stopped
    assert state.stop_reason.kind == "complete"
    state.rollback(1)
    assert not state.is_stopped


# -- undo, fork, reset


def walk(state: GuidanceState, draw: Any, steps: int) -> None:
    for _ in range(steps):
        ids = allowed(state)
        if state.is_stopped or not ids:
            return
        state.commit([draw(st.sampled_from(ids))])


PLANS: list[dict[str, Any]] = [
    {"response_format": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    {"reasoning_effort": "minimal", "response_format": Choice(["yes", "no"])},
    {"reasoning_effort": "minimal"},
    {"response_format": Regex("(?:ab|a)*c")},
]


def test_a_rollback_forgets_what_a_mask_looked_at(engine: Engine) -> None:
    """The engine alone keeps the rows that it parsed for the mask after ``bb``, and reads ``bab`` with them."""
    state, fresh = (state_of(engine, response_format=Lark('start: ("ba" | "b"*) ("b" | "ba")')) for _ in range(2))
    write(state, "b")
    write(state, "b")
    mask(state)
    state.rollback(1)
    for char in "ab":
        state.commit(engine.tokenize(char))
    for char in "bab":
        fresh.commit(engine.tokenize(char))
    assert_same(state, fresh)


def assert_same(one: GuidanceState, other: GuidanceState) -> None:
    assert list(one.tokens) == list(other.tokens)
    assert np.array_equal(mask(one), mask(other))
    assert one.region is other.region
    assert one.is_stopped == other.is_stopped
    assert one.is_accepting == other.is_accepting
    assert one.ff_tokens() == other.ff_tokens()


@given(parts=st.sampled_from(PLANS), data=st.data())
@settings(max_examples=30)
def test_a_mask_stands_while_its_forks_go_on(engine: Engine, parts: dict[str, Any], data: st.DataObject) -> None:
    """Masks are computed in place; a fork that shares one must not lose it to the other's next."""
    state = state_of(engine, **parts)
    walk(state, data.draw, 3)
    held = state.mask()
    was = held.copy()
    twins = [state.fork() for _ in range(2)]
    late = twins[0].fork()
    assert all(twin.mask() is held for twin in (*twins, late)), "forks need not ask the engine again"
    for one in (twins[1], twins[0]):
        walk(one, data.draw, 3)
        one.mask()
    assert np.array_equal(late.mask(), was)
    assert np.array_equal(held, was)
    assert np.array_equal(mask(state), was)
    masks = [one.mask() for one in (*twins, state) if one is state or one.num_tokens > state.num_tokens]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(masks) for b in masks[:i])


def test_no_rollback_goes_past_the_beginning(engine: Engine) -> None:
    state = state_of(engine, response_format=Choice(["yes"]))
    write(state, "yes")
    for wrong in (99, -1):
        with pytest.raises(GuidanceError, match=f"cannot undo {wrong} tokens; expected 0 to"):
            state.rollback(wrong)


# -- forced tokens


@costly
@given(parts=st.sampled_from(PLANS), data=st.data())
def test_fast_forward_gives_the_tokens_of_step_by_step(
    engine: Engine, parts: dict[str, Any], data: st.DataObject
) -> None:
    state = state_of(engine, **parts)
    walk(state, data.draw, data.draw(st.integers(0, 6)))
    forced = state.ff_tokens()
    assert state.validate(forced) == len(forced)
    for token in forced:
        assert allowed(state) == [token]
        state.commit([token])


# -- budgets


@pytest.mark.parametrize("budget_text", ["hm " * 100, "日本語" * 60])
def test_a_budget_counts_the_tokens_between_the_markers(engine: Engine, budget_text: str) -> None:
    state = state_of(engine, reasoning_effort="minimal", response_format=Choice(["a", "b"]))
    start, end = engine.tokens.id_of("<think>"), engine.tokens.id_of("</think>")
    assert start is not None
    assert end is not None
    state.commit([start])
    inside = 0
    for token in engine.tokenize(budget_text):
        if allowed(state) == [end]:
            break
        state.commit([token])
        inside += 1
    assert 64 <= inside <= 64 + 3  # a character that needs several tokens is finished first
    assert state.ff_tokens()[:1] == [end]
    state.commit([end])
    assert state.region is RegionName.RESPONSE
    write(state, "\n\na")
    assert state.is_accepting


def test_a_budget_closes_a_textual_marker_with_what_is_missing_of_it(plain_engine: Engine) -> None:
    state = state_of(plain_engine, reasoning_effort="minimal", response_format=Choice(["a", "b"]))
    write(state, "<think>")
    by_byte = {plain_engine.token_bytes(i): i for i in range(256)}
    for _ in range(62):
        state.commit([by_byte[b"x"]])
    state.commit([by_byte[b"<"], by_byte[b"/"]])
    forced = state.ff_tokens()
    assert b"".join(map(plain_engine.token_bytes, forced)) == b"think>"
    state.commit(forced[:1])
    twin = state.fork()
    twin.rollback(1)
    assert twin.ff_tokens() == forced
    for token in forced[1:]:
        assert allowed(state) == [token]
        state.commit([token])
    assert state.region is RegionName.RESPONSE


# -- client text that spells a marker


def test_client_text_that_spells_a_marker_is_a_counted_repair(engine: Engine) -> None:
    state = state_of(engine, response_format=Choice(["<think>"]))
    assert not set(allowed(state)) & engine.tokens.marker_ids
    assert state.counters.repairs


# -- failing closed


def test_a_token_outside_the_grammar_is_an_error_and_rollback_heals_it(engine: Engine) -> None:
    state = state_of(engine, response_format=Choice(["yes", "no"]))
    write(state, "y")
    before = mask(state)
    with pytest.raises(MatcherFailed, match="the grammar|doesn't satisfy"):
        state.commit(engine.tokenize("q"))
    state.rollback(1)
    write(state, "y")
    assert np.array_equal(mask(state), before)


def test_a_sentinel_is_never_part_of_an_answer(engine: Engine) -> None:
    state = state_of(engine, response_format=Choice(["a"]))
    write(state, "a")
    assert state.validate([state.plan.ends[0].sentinel]) == 0
    with pytest.raises(MatcherFailed):
        state.commit([state.plan.ends[0].sentinel])


def test_validate_counts_the_tokens_that_could_follow(engine: Engine) -> None:
    state = state_of(engine, response_format=Choice(["yes"]))
    ids = engine.tokenize("yes")
    end = end_of(engine)
    assert state.validate([*ids, end]) == len(ids) + 1
    assert state.validate([end]) == 0
    assert state.validate([*ids, end, end]) == len(ids) + 1
    assert state.validate([]) == 0
    assert list(state.tokens) == []


def test_a_draft_that_the_engine_accepts_is_validated_without_a_copy(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(engine, response_format=Choice(["yes"]))
    monkeypatch.setattr(GuidanceState, "fork", None)
    assert state.validate(engine.tokenize("yes")) == len(engine.tokenize("yes"))


def test_an_engine_error_in_mid_generation_is_raised_and_never_looks_like_an_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(engine, response_format=Regex("((a{1,100}){1,100}){1,100}"))
    monkeypatch.setattr(state._matcher, "current", _Broken())
    monkeypatch.setattr(engine, "compile_private", lambda *args: _Broken())
    with pytest.raises(GuidanceError, match="token 0.*computing a mask"):
        mask(state)


class _Broken:
    """An engine matcher that fails at its first mask: it says so only when it is asked."""

    failed = False

    def unsafe_compute_mask_ptr(self, pointer: int, size: int) -> None:
        self.failed = True

    def compute_ff_tokens(self) -> list[int]:
        return []

    def is_error(self) -> bool:
        return self.failed

    def get_error(self) -> str:
        return "parser error: Too many items (limit 50000; mask)"

    def stop_reason(self) -> str:
        return "InternalError"


def test_the_compile_cache_is_bounded_and_counted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine._compiled, "capacity", 2)
    before = engine.cache_info()
    for option in ("one", "two", "one", "three", "four"):
        engine.pristine(plan_of(engine, response_format=Choice([option])))
    info = engine.cache_info()
    assert info.hits - before.hits == 1
    assert info.misses - before.misses == 4
    assert info.evictions > before.evictions
    assert 0 < info.size_bytes <= info.capacity_bytes


def test_the_compile_cache_holds_no_more_memory_than_it_may(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"start: {json.dumps(letter * 1000)}" for letter in "abcdef"]
    most = sum(map(grammar_bytes, texts[:3]))
    monkeypatch.setattr(engine._compiled, "max_bytes", most)
    for text in texts:
        engine.compile(text)
    info = engine.cache_info()
    assert info.entries == 3  # the latest, whose sizes are equal
    assert info.size_bytes == info.capacity_bytes == most
    assert 1000 * sum(map(len, texts[:3])) > info.size_bytes > 100 * sum(map(len, texts[:3]))


@pytest.mark.parametrize(
    ("bitmask", "row"),
    [
        (lambda size: np.zeros((2, size), dtype=np.int32), 2),
        (lambda size: np.zeros((2, size), dtype=np.int32), -1),
        (lambda size: np.zeros((2, size), dtype=np.int32), None),
        (lambda size: np.broadcast_to(np.int32(0), (2, size)), 0),  # read-only
        (lambda size: np.zeros((2, size), dtype=np.int64), 0),
        (lambda size: np.zeros((2, 32 * size), dtype=np.bool_), 0),
        (lambda size: np.zeros((2, size + 1), dtype=np.int32), 0),
        (lambda size: np.zeros(size, dtype=np.int32), 0),
        (lambda size: torch.zeros((2, size), dtype=torch.int32), 0),
        (lambda size: [[0] * size], 0),
    ],
)
def test_memory_that_holds_no_mask_is_refused(engine: Engine, bitmask: Any, row: Any) -> None:
    """Numpy would write some of them, as words of another width that mean other tokens."""
    state, size = state_of(engine), num_words(engine.vocab_size)
    with pytest.raises(GuidanceError, match=rf"^bitmask: .*expected an array int32 \[rows, {size}\]"):
        state.fill_bitmask(bitmask(size), row)
    words = torch.zeros((2, size), dtype=torch.int32)
    state.fill_bitmask(words.numpy(), 1)
    assert (words[1].numpy() == state.mask()).all()
    assert not words[0].any()
