"""Stops through every way of generating, judged by string search over what is written without them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from grammars.plan.plan import RowPlan, Stops
from guided.hf.cache.self_test import abilities_of
from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from guided.output.message import Message
from guided.sampling import Sampling
from guided.state.state import GuidanceState
from special_tokens.errors import MatcherFailed, RequestError
from tests.judges.generation import GuidedCall
from tests.made_up.models import forwards_of

CHATS = ["tell me a thing", "why is the sky blue?", "x", "count to nine", "zebra", "the end"]
GREEDY = Sampling(temperature=0)
MAX = 60

GenerateWay = Callable[[Any, list[str], list[RowPlan]], list[Message]]


def by_generate(guide: Any, chats: list[str], plans: list[RowPlan]) -> list[Message]:
    return GuidedCall(guide, chats, plans).run(max_new_tokens=MAX)[1]


def by_loop(guide: Any, chats: list[str], plans: list[RowPlan]) -> list[Message]:
    return list(guide.generate(chats, plans, sampling=GREEDY, max_tokens=MAX))


def by_stream(guide: Any, chats: list[str], plans: list[RowPlan]) -> list[Message]:
    out = []
    for chat, plan in zip(chats, plans, strict=True):
        stream = guide.stream(chat, plan, describe=False, temperature=0, max_tokens=MAX)
        text = "".join(event.text for event in stream)
        assert text == (stream.message.content or "")
        out.append(stream.message)
    return out


WAYS = {"generate": by_generate, "loop": by_loop, "stream": by_stream}


def free_bytes(guide: Any, chat: str) -> tuple[list[int], bytes]:
    """Return what the model writes unguided and greedily: tokens and raw bytes without the end."""
    inputs = checked_inputs(guide.context, [chat])
    out = guide.model.generate(**inputs, max_new_tokens=MAX, do_sample=False)[0, inputs.prompt_len :].tolist()
    ends = set(guide.tokens.end_ids)
    tokens = out[: next((i for i, token in enumerate(out) if token in ends), len(out))]
    return tokens, b"".join(map(guide.engine.token_bytes, tokens))


def a_stop_in(data: bytes, *, at: int, size: int) -> str | None:
    """A piece of ``data`` near byte ``at`` that is text and stands there first."""
    for first in range(at, len(data) - size):
        piece = data[first : first + size]
        if piece.isascii() and piece.isalnum() and data.find(piece) == first:
            return piece.decode()
    return None


@cache
def cases(guide: Any) -> list[tuple[str, str, bytes, list[int]]]:
    """(chat, stop, bytes before the stop, all tokens) from the model's own free text."""
    out = []
    for n, chat in enumerate(CHATS):
        tokens, data = free_bytes(guide, chat)
        stop = a_stop_in(data, at=4 + 5 * n, size=1 + n % 3)
        if stop is not None:
            out.append((chat, stop, data[: data.find(stop.encode())], tokens))
    assert len(out) >= 3
    return out


def num_tokens_to(guide: Any, tokens: list[int], size: int) -> int:
    """Return the number of tokens that write ``size`` bytes."""
    written = 0
    for n, token in enumerate(tokens, 1):
        written += len(guide.engine.token_bytes(token))
        if written >= size:
            return n
    raise AssertionError("never written")


def shown(guide: Any, data: bytes) -> str:
    return data.decode("utf-8", "replace")


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_X1_X4_every_path_stops_on_the_very_token_with_the_same_text(
    tiny_guide: Any, way: GenerateWay, include: bool
) -> None:
    abilities_of(tiny_guide.model)  # the self-test's forwards are none of the answers'
    special = {t.id for t in tiny_guide.tokens.added.values() if t.special}
    for chat, stop, before, tokens in cases(tiny_guide):
        expected = num_tokens_to(tiny_guide, tokens, len(before) + len(stop))
        with forwards_of(tiny_guide.model) as forwards:
            (message,) = way(tiny_guide, [chat], [Stops((stop, "never written"), include=include)])
        assert message.usage.completion_tokens == expected
        assert len(forwards) == expected  # the prompt's forward chooses token 1; none follows the last one
        assert (message.finish_reason, message.stop_reason) == ("stop", stop)
        assert message.token_ids == tuple(tokens[:expected])
        if not special & set(tokens):  # they are not shown: raw bytes are no judge of such a text
            assert message.content == shown(tiny_guide, before + stop.encode() * include)


@pytest.mark.parametrize("way", [by_generate, by_loop])
def test_X4_a_row_that_stops_leaves_the_others_alone(tiny_guide: Any, way: GenerateWay) -> None:
    found = cases(tiny_guide)
    chats = [chat for chat, *_ in found]
    free = way(tiny_guide, chats, [None] * len(chats))
    for first in (0, 1):
        plans = [Stops((stop,)) if r % 2 == first else None for r, (_, stop, *_) in enumerate(found)]
        for plan, message, alone in zip(plans, way(tiny_guide, chats, plans), free, strict=True):
            if plan is None:
                assert message.token_ids == alone.token_ids
            else:
                assert message.stop_reason in plan.strings


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_X6_stops_work_on_guided_rows(tiny_guide: Any, way: GenerateWay) -> None:
    for chat in CHATS[:3]:
        (whole,) = way(tiny_guide, [chat], [tiny_guide.plan()])
        text = whole.content or ""
        middle = text[len(text) // 2 : len(text) // 2 + 2]
        before = text[: text.find(middle)]
        (message,) = way(tiny_guide, [chat], [tiny_guide.plan(stop=[middle])])
        assert message.guidance.applied
        assert message.content == before
        assert (message.finish_reason, message.stop_reason) == ("stop", middle)
        token = whole.token_ids[len(whole.token_ids) // 3]
        (message,) = way(tiny_guide, [chat], [tiny_guide.plan(stop=Stops(ids=(token,)))])
        first = whole.token_ids.index(token)
        assert message.token_ids == whole.token_ids[: first + 1]
        assert (message.finish_reason, message.stop_reason) == ("stop", token)


def test_X6_a_special_stop_token_is_offered_to_a_guided_row(tiny_guide: Any) -> None:
    """Free text holds no special token; one that the request stops at is an end of the answer."""
    for stops in (Stops(ids=(tiny_guide.tokens.id_of("<|endoftext|>"),)), Stops(("<|endoftext|>",))):
        token = tiny_guide.tokens.id_of("<|endoftext|>")
        plan = tiny_guide.plan(stop=stops)
        assert token in plan.end_ids()
        (message,) = tiny_guide.generate(
            ["x"], [plan], sampling=Sampling(temperature=0, logit_bias={token: 100}), max_tokens=5
        )
        assert (message.content, message.finish_reason) == ("", "stop")
        assert message.stop_reason == (stops.ids[0] if stops.ids else "<|endoftext|>")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_stop_on_the_last_token_beats_max_tokens(tiny_guide: Any, way: GenerateWay, monkeypatch: Any) -> None:
    chat, stop, before, tokens = cases(tiny_guide)[1]
    last = num_tokens_to(tiny_guide, tokens, len(before) + len(stop))
    monkeypatch.setitem(globals(), "MAX", last)
    (message,) = way(tiny_guide, [chat], [Stops((stop,))])
    assert message.usage.completion_tokens == last
    assert (message.finish_reason, message.stop_reason) == ("stop", stop)
    monkeypatch.setitem(globals(), "MAX", last - 1)
    (message,) = way(tiny_guide, [chat], [Stops((stop,))])
    assert (message.finish_reason, message.stop_reason) == ("length", None)


def test_the_prompt_never_counts(tiny_guide: Any) -> None:
    """transformers' own stop strings would find the stop across the prompt's end."""
    chat, _, _, tokens = cases(tiny_guide)[0]
    first = next(i for i, t in enumerate(tokens) if tiny_guide.engine.token_bytes(t).isalnum())
    piece = tiny_guide.engine.token_bytes(tokens[first]).decode()
    if first == 0:
        (message,) = by_loop(tiny_guide, [chat], [Stops(("assistant\n" + piece,))])
        assert message.stop_reason is None
    (message,) = by_loop(tiny_guide, [chat], [Stops((chat,))])
    assert message.stop_reason is None


def test_tokens_after_a_stop_are_cut_from_what_another_loop_wrote(tiny_guide: Any) -> None:
    """A loop that notices late, as assisted decoding does, changes nothing in the message."""
    chat, stop, before, tokens = cases(tiny_guide)[0]
    inputs = checked_inputs(tiny_guide.context, [chat])
    out = torch.cat([inputs["input_ids"], torch.tensor([tokens])], dim=-1)
    (message,) = read_messages(tiny_guide.context, out, inputs, [Stops((stop,))])
    assert message.content == shown(tiny_guide, before)
    assert (message.finish_reason, message.stop_reason) == ("stop", stop)
    assert message.usage.completion_tokens == num_tokens_to(tiny_guide, tokens, len(before) + len(stop))


def test_a_row_whose_guidance_failed_and_went_on_still_stops(tiny_guide: Any, monkeypatch: Any) -> None:
    chat, stop, before, _ = cases(tiny_guide)[0]

    def broken(self: Any, *args: Any) -> None:
        raise MatcherFailed("injected")

    monkeypatch.setattr(GuidanceState, "token_mask", broken)
    (message,) = tiny_guide.generate(
        [chat], [tiny_guide.plan(stop=[stop])], sampling=GREEDY, max_tokens=MAX, on_error="unconstrained"
    )
    assert message.stop_reason == stop
    assert message.content == shown(tiny_guide, before)


def test_a_row_of_stops_alone_is_checked_like_a_plan(tiny_guide: Any) -> None:
    """An empty pattern was taken for no stops at all, and the row ran on."""
    plans: list[RowPlan] = [Stops(regex="")]
    inputs = checked_inputs(tiny_guide.context, ["x"], plans)
    for call in (
        lambda: tiny_guide.plan(stop=plans[0]),
        lambda: tiny_guide.generate(["x"], plans),
        lambda: generate_kwargs(tiny_guide.context, inputs, plans),
        lambda: generate_kwargs(tiny_guide.context, None, plans[0]),
        lambda: tiny_guide.chat("x", plans[0]),
    ):
        with pytest.raises(RequestError, match=r"stop\.regex: the pattern '' matches the empty text"):
            call()


def test_X4_drafts_stop_where_greedy_stops(tiny_guide: Any) -> None:
    """Prompt lookup accepts several tokens at once; the text ends at the stop all the same."""
    for chat, stop, before, _ in cases(tiny_guide)[:3]:
        repeated = f"{chat} {shown(tiny_guide, before)}{stop}"  # something to look up
        plan = Stops((stop,))
        (expected,) = by_generate(tiny_guide, [repeated], [plan])
        _, (message,) = GuidedCall(tiny_guide, [repeated], [plan]).run(max_new_tokens=MAX, prompt_lookup_num_tokens=5)
        assert message.token_ids == expected.token_ids
        assert (message.content, message.stop_reason) == (expected.content, expected.stop_reason)


@pytest.mark.parametrize("guided_row", [False, True], ids=["free", "guided"])
def test_X4_beams_end_at_their_stops(tiny_guide: Any, guided_row: bool) -> None:
    chat, stop, _, _ = cases(tiny_guide)[0]
    stops = Stops((stop, "e", "o"))
    plan = tiny_guide.plan(stop=stops) if guided_row else stops
    beams = {"max_new_tokens": 25, "num_beams": 3, "num_return_sequences": 3}
    _, messages = GuidedCall(tiny_guide, [chat], [plan]).run(**beams)
    assert len(messages) == 3
    ends = set(tiny_guide.tokens.end_ids)
    for message in messages:
        raw = b"".join(tiny_guide.engine.token_bytes(t) for t in message.token_ids if t not in ends)
        found = [raw.find(s.encode()) for s in stops.strings if s.encode() in raw]
        if message.stop_reason is None:
            assert not found
        else:
            last = len(tiny_guide.engine.token_bytes(message.token_ids[-1]))
            assert len(raw) - last <= min(found) + 1  # the stop is in the last token, or ends there
            assert message.finish_reason == "stop"
    assert any(message.stop_reason is not None for message in messages)
