"""Law cache: an answer that begins with kept rows is the answer that a fresh forward gives.

Judges: forwards over the whole prompt without our code, the same loop without reuse, and prefixes counted by hand.
"""

from __future__ import annotations

import gc
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.hf.cache.kv_cache import RowKV
from guided.hf.cache.packed_kv import PackedKV
from guided.hf.cache.prefix_pool import PrefixPool
from guided.hf.cache.row_layers import RowLayer
from guided.hf.generate.inputs import checked_inputs
from guided.hf.loop.row_loop import RowLoop, Step
from guided.sampling import Sampling
from guided.tracking.commit_log import num_common
from special_tokens.errors import RequestError
from tests.cases import seeds
from tests.conftest import make_tiny_guide
from tests.made_up.models import ARCHITECTURES, forwards_of
from tests.made_up.schemas import closed

WORDS = ["cat", "why", "a longer thing", "ok", "\n", "tell me", "{}", "no", "yes and", "12"]
OBJECT = closed({"name": {"enum": ["red", "reddish"]}, "n": {"type": "integer", "maximum": 99}})


def text(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 6)))


def edited(chat: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """The conversation as a client may send it next: longer, cut, changed, with another system text."""
    kind = rng.randrange(8)
    chat = [dict(message) for message in chat]
    if kind == 0 and len(chat) > 3:
        del chat[rng.randrange(1, len(chat) - 1) :]
    elif kind == 1 and len(chat) > 1:
        chat[rng.randrange(len(chat))]["content"] = text(rng)
    elif kind == 2:
        chat = [m for m in chat if m["role"] != "system"]
        chat.insert(0, {"role": "system", "content": text(rng)})
    elif kind == 3:
        chat = chat[:1]
    if not chat or chat[-1]["role"] != "user":
        chat.append({"role": "user", "content": text(rng)})
    return chat


class SeenForwards:
    """Each choice of a token: whether its run reused rows, all tokens before it, and the logits it was made from."""

    def __init__(self) -> None:
        self.choices: list[tuple[bool, list[int], torch.Tensor]] = []
        self.most = 1e-5
        self._noise = 0.0  # the largest error of runs without reuse

    def check(self, model: Any) -> None:
        """The logits are those of a forward over the whole text without a cache, up to 1e-5 of the largest.

        Where a model is less exact without reuse, up to twice that.
        """
        judged: list[tuple[list[int], torch.Tensor]] = []  # texts that no other goes on from, and their logits
        for ids in sorted((ids for _, ids, _ in self.choices), key=len, reverse=True):
            if not any(text[: len(ids)] == ids for text, _ in judged):
                with torch.no_grad():
                    judged.append((ids, model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()))
        for reused, ids, found in sorted(self.choices, key=lambda choice: choice[0]):
            judge = next(logits[len(ids) - 1] for text, logits in judged if text[: len(ids)] == ids)
            error = float((found.float() - judge).abs().max() / judge.abs().max())
            if reused:
                assert error < max(self.most, 2 * self._noise)
            else:
                assert error < 1e-4
                self._noise = max(self._noise, error)
        self.choices.clear()


@pytest.fixture
def seen(monkeypatch: Any) -> SeenForwards:
    found = SeenForwards()
    advance = RowLoop._write

    def noted(self: RowLoop, logits: torch.Tensor, step: Step) -> None:
        for i in self._ready:
            row = self._active[i]
            found.choices.append((row.reuse is not None, list(self.cache.ids[i]), logits[i, -1].clone()))
        advance(self, logits, step)

    monkeypatch.setattr(RowLoop, "_write", noted)
    return found


def converse(guide: Any, rng: random.Random, turns: int, after: Any) -> None:
    """Talk for some turns: plans and free text mixed, batches, n answers, edits, streams that are broken off."""
    plans = [None, guide.plan(response_format=OBJECT), guide.plan(response_format={"enum": ["a", "bee"]})]
    chats: list[list[dict[str, Any]]] = [[{"role": "user", "content": text(rng)}] for _ in range(3)]
    for _ in range(turns):
        size = rng.choice([1, 1, 2, 3])
        chosen = [rng.choice(plans) for _ in range(size)]
        now = [edited(chat, rng) for chat in chats[:size]]
        sampling = Sampling(temperature=1.0, seed=rng.randrange(99), logprobs=rng.choice([None, None, 1]))
        if size == 1 and rng.random() < 0.2:
            stream = guide.stream(now[0], chosen[0], temperature=1.0, max_tokens=8)
            next(iter(stream), None)
            del stream
            after()
            continue
        options = {"sampling": sampling, "max_tokens": 12, "describe": rng.random() < 0.5}
        state = torch.random.get_rng_state()
        judge = guide.generate(now, chosen, **options, reuse=False)
        torch.random.set_rng_state(state)
        messages = guide.generate(now, chosen, **options)
        assert [m.token_ids for m in messages] == [m.token_ids for m in judge]
        assert all(m.usage.cached_tokens == 0 for m in judge)
        after()
        for r, message in enumerate(messages):
            chats[r] = [*now[r], message.to_chat() | {"content": message.content or ""}]


def of_architecture(name: str, guide: Any) -> Any:
    sizes: dict[str, Any] = {"vocab_size": len(guide.tokenizer), "max_position_embeddings": 4096}
    return ARCHITECTURES[name](**sizes | ({"n_positions": 4096} if name == "gpt2" else {}))


@pytest.mark.parametrize("seed", seeds(4, default=1))
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_with_reuse_are_those_of_a_fresh_forward(
    tiny_guide: Any, seen: SeenForwards, name: str, seed: int
) -> None:
    guide = guided.Guide(of_architecture(name, tiny_guide), tiny_guide.tokenizer)
    if name == "qwen3_next":
        seen.most = 3e-5  # its state sums up what single steps and longer pieces round differently

    def after() -> None:
        if not guide.stats().kept.off:
            seen.check(guide.model)
        seen.choices.clear()

    converse(guide, random.Random(5 + seed), 20 if seed or name == "llama" else 8, after)
    if name == "llama":
        assert guide.stats().kept.hits > 10
        assert guide.stats().kept.reused_tokens > 300
    chat = [{"role": "user", "content": "tell me"}]
    for turn in range(4):
        message = guide.chat(chat, temperature=1.0, seed=turn, max_tokens=9)
        after()
        if guide.stats().kept.off:  # Mamba, and LFM2 with transformers 5.12
            assert name in ("mamba", "lfm2")
            assert guide.stats().kept.rows == message.usage.cached_tokens == 0
            assert "step by step" in guide.stats().kept.off or "several tokens" in guide.stats().kept.off
        else:
            assert message.usage.cached_tokens > 0 or turn == 0
        chat += [message.to_chat(), {"role": "user", "content": "why?"}]


@pytest.mark.slow
def test_the_law_holds_for_the_embedded_model(demo_guide: Any, seen: SeenForwards) -> None:
    guide = guided.Guide(demo_guide.model, demo_guide.tokenizer)
    converse(guide, random.Random(1), 20, lambda: seen.check(guide.model))
    assert guide.stats().kept.hits > 10


def test_a_plain_conversation_feeds_what_is_new(guide: Any) -> None:
    """Tokens fed on turn n are the prompt without what it shares with prompt n - 1 and its answer, counted here."""
    rng = random.Random(2)
    chat: list[dict[str, Any]] = []
    known: list[int] = []
    with forwards_of(guide.model) as fed:
        for turn in range(20):
            chat.append({"role": "user", "content": text(rng)})
            prompt = list(checked_inputs(guide.context, [chat]).prompt_ids[0])
            shared = next((i for i, (a, b) in enumerate(zip(prompt, known, strict=False)) if a != b), len(known))
            shared = min(shared, len(known), len(prompt) - 1)
            fed.clear()
            message = guide.chat(chat, temperature=1.0, seed=turn, max_tokens=10)
            if turn:
                assert fed[0].shape[1] == len(prompt) - shared
                assert message.usage.cached_tokens == shared
            known = [*prompt, *message.token_ids[:-1]]  # the last token was never fed
            chat.append({"role": "assistant", "content": message.content})


def test_first_requests_cost_the_same_with_the_pool_and_without(tiny_guide: Any, monkeypatch: Any) -> None:
    counts = []
    for size in (0, None):
        guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer, cache_bytes=size)
        guide.chat("warm", max_tokens=2, reuse=False)
        calls: list[str] = []
        for name in ("clone", "index_select", "copy_", "contiguous"):
            method = getattr(torch.Tensor, name)
            monkeypatch.setattr(
                torch.Tensor, name, lambda *a, _m=method, _n=name, _c=calls, **k: (_c.append(_n), _m(*a, **k))[1]
            )
        with guide.model.register_forward_pre_hook(lambda *_, _c=calls: _c.append("forward")):
            guide.chat("tell me", max_tokens=9, temperature=0)
        monkeypatch.undo()
        counts.append(calls)
    assert counts[0] == counts[1]
    assert counts[0].count("forward") == 9


def test_what_is_kept_is_bounded_counted_and_forgotten(tiny_guide: Any) -> None:
    guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer)
    for chat in ("one", "two", "three"):
        guide.chat(chat, temperature=0, max_tokens=5)
    stats = guide.stats().kept
    assert (stats.rows, stats.evicted) == (3, 0)
    small = guided.Guide(tiny_guide.model, tiny_guide.tokenizer, cache_bytes=stats.size_bytes - 1)
    for chat in ("one", "two", "three"):
        small.chat(chat, temperature=0, max_tokens=5)
    assert small.stats().kept.size_bytes <= small.stats().kept.max_bytes
    assert (small.stats().kept.rows, small.stats().kept.evicted) == (2, 1)
    assert guide.forget() == 3
    assert guide.stats().kept.size_bytes == guide.stats().kept.rows == 0


def test_nothing_is_kept_where_there_is_no_room_or_no_wish(tiny_guide: Any) -> None:
    answers = set()
    too_small = "a row of 28160 bytes is larger than cache_bytes (100)"
    for room, reuse, why in ((0, True, "cache_bytes is 0"), (100, True, too_small), (None, False, "")):
        guide = guided.Guide(tiny_guide.model, tiny_guide.tokenizer, cache_bytes=room)
        for _ in range(2):
            answers.add(guide.chat("why?", temperature=0, max_tokens=5, reuse=reuse).token_ids)
            assert (guide.stats().kept.rows, guide.stats().kept.off) == (0, why)
    assert len(answers) == 1
    for wrong in (-1, 1.5, "1 GB", True):
        with pytest.raises(RequestError, match="cache_bytes: .* is out of range; expected bytes, 0 or more, or None"):
            guided.Guide(tiny_guide.model, tiny_guide.tokenizer, cache_bytes=wrong)


def test_a_static_cache_keeps_nothing_and_says_why(guide: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(guide.model.generation_config, "cache_implementation", "static", raising=False)
    guide.chat("why?", temperature=0, max_tokens=5)
    assert guide.stats().kept.rows == 0
    assert guide.stats().kept.off == "decoded step by step: the cache is a StaticCache"


def test_a_conversation_that_fills_the_context_in_mid_run_is_cut_there(tiny_guide: Any) -> None:
    """The answer ends with the context, right up to there; the next turn is refused before it costs anything."""
    guide = make_tiny_guide()  # 512 tokens
    chat = [{"role": "user", "content": "word " * 95}]
    for _ in range(2):
        message = guide.chat(chat, temperature=1.0, seed=1, max_tokens=400)
        judge = guide.chat(chat, temperature=1.0, seed=1, max_tokens=400, reuse=False)
        assert message.token_ids == judge.token_ids
        assert message.finish_reason == "length"
        assert message.usage.prompt_tokens + message.usage.completion_tokens == 512
        assert message.usage.cached_tokens in (0, message.usage.prompt_tokens - 1)
    before = guide.stats().kept
    with pytest.raises(RequestError, match="messages: the prompt fills the context of 512 tokens"):
        guide.chat([*chat, message.to_chat(), {"role": "user", "content": "go on " * 99}], max_tokens=5)
    assert guide.stats().kept == before


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_run_that_breaks_off_keeps_what_the_cache_has(guide: Any, seen: SeenForwards, error: type) -> None:
    calls: list[int] = []

    def breaks(*_: Any) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise error("in mid-forward")

    with guide.model.model.layers[1].register_forward_pre_hook(breaks):
        with pytest.raises(error):
            guide.chat("tell me", temperature=0, max_tokens=9)
        seen.choices.clear()
        message = guide.chat("tell me", temperature=0, max_tokens=9)
    assert message.usage.cached_tokens == message.usage.prompt_tokens - 1
    seen.check(guide.model)
    assert guide.stats().kept.rows == 1


def test_concurrent_turns_of_one_conversation_are_right(guide: Any) -> None:
    expected = [guide.chat("tell me", temperature=1.0, seed=s, max_tokens=9, reuse=False).token_ids for s in range(6)]
    with ThreadPoolExecutor(6) as threads:
        asking = [threads.submit(guide.chat, "tell me", temperature=1.0, seed=s, max_tokens=9) for s in range(6)]
    assert [message.result().token_ids for message in asking] == expected


def test_the_longest_beginning_wins_and_the_oldest_row_goes() -> None:
    """Against brute force over random rows."""

    class TakenIds:
        size_bytes = 10

        def __init__(self, ids: tuple[int, ...]) -> None:
            self.ids = ids

    rng = random.Random(0)
    pool = PrefixPool(50)
    kept: list[tuple[int, ...]] = []
    for _ in range(400):
        ids = tuple(rng.randrange(2) for _ in range(rng.randrange(1, 9)))
        row: Any = TakenIds(ids)
        found = pool.longest(ids[:-1], 0)
        lengths = [max(n for n in range(len(ids)) if k[:n] == ids[:n]) for k in kept]
        assert (found[1] if found is not None else 0) == max(lengths, default=0)
        if found is not None:
            assert found[0].ids == next(k for k in reversed(kept) if k[: found[1]] == ids[: found[1]])
            kept.remove(found[0].ids)
            kept.append(found[0].ids)
        pool.keep(row, 0, pool.epoch)
        if not any(k[: len(ids)] == ids and k != ids for k in kept):
            kept = [k for k in kept if ids[: len(k)] != k] + [ids]
            kept = kept[-5:]
        assert sorted(k.row.ids for k in pool._rows.values()) == sorted(kept)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=200), st.integers(0, 199), st.integers(0, 9))
def test_long_rows_are_compared_to_the_token(one: list[int], at: int, more: int) -> None:
    other = [*one[:at], 9, *one[at + 1 :]] if at < len(one) else one + one[:more]
    assert num_common(tuple(one), tuple(other)) == min(at, len(one))


def test_a_stream_that_is_dropped_keeps_its_row_at_once(guide: Any) -> None:
    """And one that is collected as garbage while the pool is locked waits for nothing."""
    gc.disable()
    try:
        stream = guide.stream("tell me", max_tokens=9, temperature=0)
        next(stream)
        del stream
    finally:
        gc.enable()
    assert guide.stats().kept.rows == 1
    stream = guide.stream("another one", max_tokens=9, temperature=0)
    next(stream)
    with guide.context.pool._lock:
        stream.close()
    assert guide.stats().kept.rows == 2


def test_an_answer_is_not_lost_where_its_row_cannot_be_kept(guide: Any, monkeypatch: Any, caplog: Any) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("no memory left")

    expected = guide.generate(["hello", "you"], sampling=Sampling(temperature=0), max_tokens=9, reuse=False)
    for kind in (RowKV, PackedKV):
        monkeypatch.setattr(kind, "take", full)
    found = guide.generate(["hello", "you"], sampling=Sampling(temperature=0), max_tokens=9)
    assert [m.token_ids for m in found] == [m.token_ids for m in expected]
    assert "rows could not be kept: OutOfMemoryError: no memory left" in caplog.text


def test_a_row_that_an_error_left_half_moved_is_not_kept(guide: Any, monkeypatch: Any) -> None:
    select, calls = RowLayer.select_rows, []

    def breaks(self: RowLayer, *args: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no memory left")
        select(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(RowLayer, "select_rows", breaks)
        patch.setattr("guided.hf.loop.prepare.packs", lambda *_, **__: False)
        with pytest.raises(torch.OutOfMemoryError):
            guide.generate(["hello", "tell me why"], sampling=Sampling(temperature=1.0, n=2, seed=1), max_tokens=9)
    assert guide.stats().kept.rows == 0


def test_what_began_before_all_was_forgotten_keeps_nothing(guide: Any) -> None:
    guide.chat("tell me", temperature=0, max_tokens=5)
    stream = guide.stream("tell me", temperature=0, max_tokens=9)
    next(stream)
    assert guide.forget() == 1
    stream.close()
    assert guide.stats().kept.rows == 0
