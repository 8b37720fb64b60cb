"""The KV cache against forwards of each row's ids alone, without a cache."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from guided.hf.cache.kv_cache import AppendKV, KVCache, RowKV, TakenRow
from guided.hf.cache.packed_kv import PackedKV
from guided.hf.cache.packing import why_not_packed
from special_tokens.errors import ModelError
from tests.cases import seeds
from tests.made_up.models import ARCHITECTURES, VOCABULARY, WINDOW, made, with_attention

ROWS = ("llama", "qwen3", "mistral", "gemma3", "gpt_oss", "gpt2")
PACKED = ("llama", "qwen3", "mistral", "gemma3", "gpt2", "glm4")
HYBRID = ("lfm2", "qwen3_next", "mamba")


def alone(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """The judge: logits ``[tokens, vocabulary]`` of one full forward."""
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    return logits


def assert_right(model: Any, ids: Sequence[int], logits: torch.Tensor) -> None:
    """``logits [n, vocabulary]`` are those of the last ``n`` tokens."""
    right = alone(model, ids)
    torch.testing.assert_close(logits, right[-len(logits) :], rtol=0, atol=1e-5 * float(right.abs().max()))


def some_ids(rng: random.Random, n: int) -> list[int]:
    return [rng.randrange(3, VOCABULARY) for _ in range(n)]


class CacheWalk:
    """A random walk over the operations, with the ids that each row must hold kept next to it."""

    def __init__(self, model: Any, rng: random.Random, make: Callable[[Any, int], KVCache] = RowKV) -> None:
        self.model, self.rng = model, rng
        self.ids: list[list[int]] = [[] for _ in range(rng.randint(1, 3))]
        self.cache = make(model, len(self.ids))
        self.taken: list[TakenRow] = []

    def feed(self) -> None:
        if not self.ids:
            return
        chunks = [some_ids(self.rng, self.rng.choice((0, 1, 1, 2, 5))) for _ in self.ids]
        if not any(chunks):
            return
        keep: int | list[int] = self.rng.randint(1, 3)
        if self.rng.random() < 0.5:
            keep = [self.rng.randint(0, 3) for _ in chunks]
        counts = [keep] * len(chunks) if isinstance(keep, int) else keep
        logits = self.cache.feed(chunks, keep=keep)
        assert logits.shape[:2] == (len(chunks), min(max(1, *counts), max(map(len, chunks))))
        for row, (ids, chunk, count) in enumerate(zip(self.ids, chunks, counts, strict=True)):
            ids += chunk
            if columns := min(count, len(chunk)):
                assert_right(self.model, ids, logits[row, -columns:])

    def select(self) -> None:
        rows = [row for row in range(len(self.ids)) if self.rng.random() < 0.8]
        rows += self.rng.choices(rows, k=self.rng.choice((0, 0, 1))) if rows else []
        self.rng.shuffle(rows)
        self.cache.select(rows)
        self.ids = [list(self.ids[row]) for row in rows]

    def crop(self) -> None:
        for row, ids in enumerate(self.ids):
            if self.rng.random() < 0.5:
                length = self.rng.randint(0, len(ids))
                self.cache.crop(row, length)
                del ids[length:]

    def take(self) -> None:
        if self.ids:
            row = self.rng.randrange(len(self.ids))
            self.taken.append(self.cache.take(row))
            assert list(self.taken[-1].ids) == self.ids[row]

    def put(self) -> None:
        if self.taken and len(self.ids) < 5:
            taken = self.rng.choice(self.taken)
            assert self.cache.put(taken) == len(self.ids)
            self.ids.append(list(taken.ids))

    def run(self, steps: int) -> None:
        self.feed()
        for _ in range(steps):
            self.rng.choice((self.feed, self.feed, self.feed, self.select, self.crop, self.take, self.put))()
            assert self.cache.ids == self.ids
            assert len(self.cache) == len(self.ids)


@pytest.mark.parametrize("seed", seeds(8, default=1))
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ROWS)
def test_any_order_of_operations_gives_the_logits_of_each_row_alone(name: str, attention: str, seed: int) -> None:
    if (name, attention) == ("gpt_oss", "sdpa"):
        pytest.skip("GPT-OSS has no SDPA")
    model = with_attention(ARCHITECTURES[name](), attention)
    CacheWalk(model, random.Random(f"{name} {seed}")).run(25)


@pytest.mark.parametrize("seed", seeds(12, default=2))
@pytest.mark.parametrize("name", PACKED)
def test_packed_rows_give_the_logits_of_each_row_alone(name: str, seed: int) -> None:
    model = ARCHITECTURES[name]()
    assert why_not_packed(model) == ""
    CacheWalk(model, random.Random(f"{name} {seed}"), PackedKV).run(25)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt_oss", "its attention is eager"), ("bloom", "its attention is eager"), ("lfm2", "it has layers of conv"),
        ("qwen3_next", "it has layers of linear_attention"), ("mamba", "its attention is eager"),
    ],
)  # fmt: skip
def test_rows_that_would_be_wrong_are_not_packed(name: str, said: str) -> None:
    assert why_not_packed(ARCHITECTURES[name]()) == said


@pytest.mark.parametrize("word", ["softcap", "s_aux", "a_new_one"])
def test_an_unknown_argument_of_attention_is_refused_by_name(word: str, monkeypatch: Any) -> None:
    """And a window that attention is not given, which a trial of short rows would not see."""
    model = made("MistralForCausalLM", sliding_window=WINDOW, num_hidden_layers=1)
    attention = model.model.layers[0].self_attn
    forward = type(attention).forward
    monkeypatch.setattr(type(attention), "forward", lambda *args, **named: forward(*args, **named | {word: 1.0}))
    assert word in why_not_packed(model)
    monkeypatch.undo()
    assert why_not_packed(model) == ""
    monkeypatch.setattr(attention, "config", copy.deepcopy(model.config))
    attention.config.sliding_window = None
    monkeypatch.setattr(model.config, "sliding_window", 200)
    assert why_not_packed(model) == "its attention is not given its windows"


def test_other_forwards_of_the_model_stay_as_they_are() -> None:
    """In other threads too, while packed rows are fed; and the configuration is the same."""
    model, rng = with_attention(ARCHITECTURES["llama"](), "sdpa"), random.Random(3)
    texts = [some_ids(rng, n) for n in (5, 9, 30)]
    right = [alone(model, ids) for ids in texts]
    before = model.config.to_dict()
    cache, wrong = PackedKV(model, 3), list[int]()
    cache.feed(texts)
    is_over = threading.Event()

    def others() -> None:
        while not is_over.is_set():
            wrong.extend(i for i, ids in enumerate(texts) if not torch.equal(alone(model, ids), right[i]))

    thread = threading.Thread(target=others)
    thread.start()
    for _ in range(40):
        chunks = [some_ids(rng, rng.choice((0, 1, 4))) or [7] for _ in texts]
        logits = cache.feed(chunks)
        for row, ids in enumerate(cache.ids):
            assert_right(model, ids, logits[row])
    is_over.set()
    thread.join()
    assert not wrong
    assert model.config.to_dict() == before


@pytest.mark.parametrize("name", [*HYBRID, "llama"])
def test_rows_of_an_append_cache_leave_repeat_and_come_back(name: str) -> None:
    model, rng = ARCHITECTURES[name](), random.Random(name)

    def decode(cache: KVCache) -> None:
        logits = cache.feed([some_ids(rng, 1) for _ in cache.ids])
        for row, ids in enumerate(cache.ids):
            assert_right(model, ids, logits[row])

    cache: KVCache = AppendKV(model, 3)
    cache.feed([some_ids(rng, 5) for _ in range(3)])
    for rows in ([2, 0, 0], [0, 1, 2], [1, 0], [1]):
        cache.select(rows)
        decode(cache)
    taken = cache.take(0)
    assert list(taken.ids) == cache.ids[0]
    assert taken.size_bytes > 0
    decode(cache)
    back: KVCache = AppendKV(model, 0)
    assert back.put(taken) == 0
    decode(back)
    assert back.ids[0][:-1] == list(taken.ids)


def test_an_append_cache_refuses_what_it_cannot_do() -> None:
    cache = AppendKV(ARCHITECTURES["lfm2"](), 2)
    with pytest.raises(ValueError, match="equal length"):
        cache.feed([[5], [6, 7]])
    cache.feed([[5, 6], [7, 8]])
    with pytest.raises(ModelError, match="cannot forget tokens"):
        cache.crop(0, 1)
    with pytest.raises(ModelError, match="cannot be taken out of a batch"):
        cache.take(0)


def test_a_forward_that_raises_leaves_the_rows_as_they_were() -> None:
    model = ARCHITECTURES["llama"]()
    cache = RowKV(model, 2)
    cache.feed([[5, 6, 7], [8]])

    def refuse(*_: Any) -> None:
        raise MemoryError

    with model.model.layers[1].register_forward_pre_hook(refuse), pytest.raises(MemoryError):
        cache.feed([[9], [10, 11]])
    assert cache.ids == [[5, 6, 7], [8]]
    logits = cache.feed([[12], [13, 14]])
    assert_right(model, [5, 6, 7, 12], logits[0, -1:])
    assert_right(model, [8, 13, 14], logits[1])


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_hidden_states_belong_to_the_columns_of_the_logits(name: str) -> None:
    model = ARCHITECTURES[name]()
    cache = RowKV(model, 2)
    cache.feed([[5, 6, 7], [8, 9]], hidden=True)
    logits = cache.feed([[10], [11, 12, 13]], keep=2, hidden=True)
    assert cache.hidden.shape[:2] == logits.shape[:2]
    for row, ids in enumerate(cache.ids):
        with torch.no_grad():
            last = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0, -1]
        torch.testing.assert_close(cache.hidden[row, -1], last, rtol=0, atol=1e-5 * float(last.abs().max()))
    cache.feed([[5], [6]])
    assert cache.hidden is None


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["llama", "gemma3", "mistral", "gpt_oss"])
def test_a_mask_is_made_only_where_row_lengths_differ(name: str, attention: str) -> None:
    if (name, attention) == ("gpt_oss", "sdpa"):
        pytest.skip("GPT-OSS has no SDPA")
    model, rng = with_attention(ARCHITECTURES[name](), attention), random.Random(name)
    seen: list[Any] = []
    model.register_forward_pre_hook(lambda _, args, given: seen.append(given.get("attention_mask")), with_kwargs=True)
    single, cache = RowKV(model, 1), RowKV(model, 3)
    for count in (5, 1, 4, 1):  # a prompt, a token, a forced run, a token
        single.feed([some_ids(rng, count)])
        cache.feed([some_ids(rng, count) for _ in range(3)])
    cache.select([2, 0])
    cache.feed([some_ids(rng, 1), some_ids(rng, 1)])
    assert seen == [None] * 9

    cache.feed([some_ids(rng, 1), some_ids(rng, 3)])  # chunks of different lengths make rows of different lengths
    cache.feed([some_ids(rng, 2), some_ids(rng, 2)])
    types = getattr(model.config, "layer_types", None)
    for masks in seen[9:]:
        if types is not None:
            assert set(masks) == set(types)
        for mask in masks.values() if types is not None else [masks]:
            assert (mask.ndim, mask.shape[:2]) == (4, (2, 1))
            assert mask.dtype == (torch.bool if attention == "sdpa" else model.dtype)
    cache.crop(1, len(cache.ids[0]))  # the lengths are equal again
    cache.feed([some_ids(rng, 2), some_ids(rng, 2)])
    assert [masks is None for masks in seen[9:]] == [False, False, True]
    single.feed([some_ids(rng, 6)])
    assert seen[-1] is None


def test_the_cache_is_hardly_larger_than_that_of_transformers() -> None:
    model, ids = ARCHITECTURES["llama"](), some_ids(random.Random(1), 240)
    own = model(input_ids=torch.tensor([ids]), use_cache=True).past_key_values
    bytes_of_transformers = sum(layer.keys.nbytes + layer.values.nbytes for layer in own.layers)
    cache: KVCache = RowKV(model, 1)
    cache.feed([ids[:180]])
    for token in ids[180:]:
        cache.feed([[token]])
    assert cache.size_bytes <= 1.05 * bytes_of_transformers
    assert cache.take(0).size_bytes == bytes_of_transformers
