"""The sampler, judged by transformers' own warpers, by brute force in numpy, and by the row alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from guided.hf.loop import sampling as module
from guided.hf.loop.recorder import Recorder
from guided.hf.loop.sampling import RowSampler, adjust, choose
from guided.sampling import RowSampling, uniform
from tests.cases import costly

VOCAB = 700


def logits_of(seed: int, rows: int = 1, *, masked: float = 0.0) -> torch.Tensor:
    """Random logits, some of them masked; at least three are not."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, VOCAB, generator=generator) * 3
    if masked:
        logits[torch.rand(rows, VOCAB, generator=generator) < masked] = float("-inf")
        logits[:, :3] = torch.randn(rows, 3, generator=generator)
    return logits


@given(st.integers(0, 2**20), st.integers(1, 4), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_the_greedy_choice_is_torchs(seed: int, rows: int, dtype: torch.dtype) -> None:
    """Ties, NaN and infinities included: the first of the greatest scores, or the first NaN."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-2, 3, (rows, VOCAB), generator=generator).to(dtype)
    odd = torch.tensor([float("nan"), float("inf"), float("-inf")], dtype=dtype)
    where = torch.randint(0, VOCAB, (rows,), generator=generator)
    scores[torch.arange(rows), where] = odd[torch.randint(0, 3, (rows,), generator=generator)]
    tokens, sound = module._best(scores)
    assert torch.equal(tokens, scores.argmax(dim=-1))
    assert torch.equal(sound, scores.gather(-1, tokens[:, None]).squeeze(-1).isfinite())


def warped(logits: torch.Tensor, row: RowSampling) -> torch.Tensor:
    """Probabilities after transformers' warpers, in transformers' order."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(row.temperature)])
    if row.top_k:
        warpers.append(TopKLogitsWarper(row.top_k))
    if row.top_p < 1:
        warpers.append(TopPLogitsWarper(row.top_p))
    if row.min_p:
        warpers.append(MinPLogitsWarper(row.min_p))
    return warpers(torch.zeros(1, 1, dtype=torch.long), logits.clone()).softmax(-1)[0]


def distribution(logits: torch.Tensor, row: RowSampling) -> torch.Tensor:
    """The probability of every token under our sampler, from where its inverse distribution function jumps."""
    number = 4_000
    numbers = [(i + 0.5) / number for i in range(number)]
    drawn = module._draw(logits.expand(number, -1), [row] * number, module._num_candidates(row), numbers)
    return drawn.bincount(minlength=VOCAB) / number


def chosen(rows: Sequence[RowSampling], logits: torch.Tensor, position: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose for all rows, each at the same place of its answer."""
    return choose(logits, [RowSampler(row) for row in rows], [position] * len(rows))


ROWS = st.builds(
    RowSampling,
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_p=st.sampled_from([1.0, 0.05, 0.5, 0.9, 0.999]),
    top_k=st.sampled_from([0, 2, 5, 40, 400, 10_000]),
    min_p=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
)


@given(ROWS, st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 0.99]))
def test_the_kept_tokens_are_those_of_transformers(row: RowSampling, seed: int, masked: float) -> None:
    logits = logits_of(seed, masked=masked)
    expected = warped(logits, row)
    probs = ((logits - logits.max()) / row.temperature).softmax(-1)
    if not row.has_filter:
        assert torch.allclose(probs[0], expected, atol=1e-6)
        return
    for size in (module._num_candidates(row), VOCAB):
        kept, ids, enough = module._filtered(probs, [row], min(size, VOCAB))
        if enough:
            break
    ours = torch.zeros(VOCAB).scatter(0, ids[0], kept[0] / kept[0].sum())
    border = torch.nonzero((ours > 0) != (expected > 0)).flatten().tolist()
    if border:  # where a cumulative sum meets top_p within rounding, either answer is right
        (token,) = border
        exact = torch.where(
            torch.topk(logits, min(row.top_k or VOCAB, VOCAB)).values.min() <= logits, logits, -math.inf
        )
        probs = (exact.double() / row.temperature).softmax(-1)[0]
        assert abs(float(probs[probs > probs[token]].sum()) - row.top_p) < 1e-5
        return
    assert torch.allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize(
    "row",
    [
        RowSampling(temperature=0.8),
        RowSampling(temperature=1.0, top_p=0.7),
        RowSampling(temperature=1.3, top_k=30, min_p=0.02),
    ],
)
def test_tokens_are_drawn_with_the_warped_probabilities(row: RowSampling) -> None:
    logits = logits_of(1)
    assert torch.allclose(distribution(logits, row), warped(logits, row), atol=1 / 4_000 + 1e-6)


@costly
@given(st.lists(ROWS, min_size=2, max_size=5), st.integers(0, 1_000), st.data())
def test_a_row_does_not_depend_on_its_neighbours(rows: list[RowSampling], seed: int, data: Any) -> None:
    rows = [replace(row, seed=100 + i) for i, row in enumerate(rows)]
    rows[-1] = replace(rows[-1], temperature=0.0)
    best = replace(rows[0], top_k=1)
    steps = [logits_of(seed * 10 + step, len(rows), masked=0.3) for step in range(3)]
    found = [chosen(rows, logits, i)[0].tolist() for i, logits in enumerate(steps)]
    assert [tokens[-1] for tokens in found] == [int(logits[-1].argmax()) for logits in steps]
    assert int(chosen([best], steps[0][:1])[0]) == int(steps[0][0].argmax())
    order = data.draw(st.permutations(range(len(rows))))
    for some in (*([r] for r in order), order, sorted(order[1:])):  # alone, in another order, and without one
        for i, (logits, tokens) in enumerate(zip(steps, found, strict=True)):
            assert chosen([rows[r] for r in some], logits[some], i)[0].tolist() == [tokens[r] for r in some]


def test_a_tiny_temperature_is_greedy_and_does_not_overflow() -> None:
    logits = logits_of(6) * 1e4
    for temperature in (1e-300, 1e-6, 1.1e-5):
        tokens, sound = chosen([RowSampling(temperature=temperature, seed=2)], logits)
        assert tokens[0] == logits.argmax()
        assert sound.all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_are_seen_in_their_row(value: float) -> None:
    logits = logits_of(7, 4)
    clean = logits.clone()
    logits[1] = value
    rows = [RowSampling(temperature=1.0, seed=3, top_p=0.9) for _ in range(3)] + [RowSampling()]
    tokens, sound = chosen(rows, logits)
    assert sound.tolist() == [True, False, True, True]
    expected, _ = chosen(rows, clean)
    assert [tokens[r] for r in (0, 2, 3)] == [expected[r] for r in (0, 2, 3)]
    assert 0 <= int(tokens[1]) < VOCAB


# -- penalties


def adjusted(logits: torch.Tensor, row: RowSampling, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """The logits ``[1, vocab]`` of a row after its answer so far."""
    sampler = RowSampler(row, prompt)
    sampler.commit(answer)
    return adjust(logits, [sampler])


def test_repetition_penalty_is_that_of_transformers() -> None:
    logits, prompt, answer = logits_of(8), [3, 5, 5, 9], [5, 11]
    row = RowSampling(repetition_penalty=1.3)
    ours = adjusted(logits, row, prompt, answer)
    judge = RepetitionPenaltyLogitsProcessor(1.3)
    assert torch.equal(ours, judge(torch.tensor([prompt + answer]), logits.clone()))


@given(
    st.floats(-2, 2), st.floats(-2, 2), st.lists(st.integers(0, 20), max_size=12),
    st.dictionaries(st.integers(0, 20), st.floats(-100, 100), max_size=4),
)  # fmt: skip
def test_frequency_and_presence_count_the_answer_alone(
    presence: float, frequency: float, answer: list[int], bias: dict[int, float]
) -> None:
    row = RowSampling(presence_penalty=presence, frequency_penalty=frequency, logit_bias=tuple(bias.items()))
    logits = logits_of(9)
    ours = adjusted(logits, row, [0, 1, 2, 3], answer)
    counts = np.bincount(answer, minlength=VOCAB) if answer else np.zeros(VOCAB)
    expected = logits[0].double().numpy() - frequency * counts - presence * (counts > 0)
    for token, value in bias.items():
        expected[token] += value
    assert np.allclose(ours[0].numpy(), expected, atol=1e-4)


def test_G9_penalties_never_revive_or_kill_a_masked_token() -> None:
    logits = logits_of(10, masked=0.999)
    row = RowSampling(temperature=1.0, repetition_penalty=1.9, presence_penalty=2.0, frequency_penalty=2.0, seed=1)
    found = adjusted(logits, row, list(range(VOCAB)), list(range(VOCAB)))
    assert torch.equal(found.isinf(), logits.isinf())


def test_rows_with_and_without_penalties_are_adjusted_together_as_each_alone() -> None:
    logits = logits_of(11, 4)
    rows = [RowSampling(), RowSampling(repetition_penalty=1.3, logit_bias=((4, 2.0),)), RowSampling(),
            RowSampling(frequency_penalty=0.4, presence_penalty=-0.3)]  # fmt: skip
    samplers = [RowSampler(row, [3, 5, 9]) for row in rows]
    for sampler in samplers:
        sampler.commit([4, 9, 4])
    before = logits.clone()
    found = adjust(logits, samplers)
    assert torch.equal(logits, before)
    for r, row in enumerate(rows):
        assert torch.equal(found[r], adjusted(logits[r : r + 1], row, [3, 5, 9], [4, 9, 4])[0])
        assert torch.equal(found[r], logits[r]) == (row == RowSampling())


# -- what is recorded


def test_logprobs_are_those_of_log_softmax_before_and_after() -> None:
    raw = logits_of(12, 3)
    scores = raw.clone()
    scores[1, 5:] = float("-inf")
    best = int(raw[1].argmax())
    tokens = torch.tensor([7, 2, 9])
    recorder = Recorder({0: 2, 1: 4})
    recorder.record(raw, scores, tokens, [0, 1, 2])
    for r, size in ((0, 2), (1, 4)):
        (found,) = recorder.logprobs(r, (int(tokens[r]),))
        before, after = raw[r].log_softmax(-1), scores[r].log_softmax(-1)
        assert found.logprob == pytest.approx(float(before[tokens[r]]), abs=1e-5)
        assert found.masked == pytest.approx(float(after[tokens[r]]), abs=1e-5)
        for top, judge in ((found.top, before), (found.top_masked, after)):
            values, ids = judge.topk(size)
            assert [i for i, _ in top] == ids.tolist()
            assert [p for _, p in top] == pytest.approx(values.tolist(), abs=1e-5)
        assert found.num_allowed == (VOCAB if r == 0 else 5)
        assert found.overridden == (r == 1 and best >= 5)


def test_logprobs_of_forced_tokens_are_those_of_a_mask_with_one_token() -> None:
    raw = logits_of(13, 3)
    masked = torch.full_like(raw, float("-inf"))
    tokens = [7, int(raw[1].argmax()), 2]
    for i, token in enumerate(tokens):
        masked[i, token] = raw[i, token]
    forced, sampled = Recorder({5: 3}), Recorder({5: 3})
    forced.record_forced(5, raw, tokens)
    for i in range(3):
        sampled.record(raw[i : i + 1], masked[i : i + 1], torch.tensor(tokens[i : i + 1]), [5])
    assert forced.logprobs(5, tuple(tokens)) == sampled.logprobs(5, tuple(tokens))
    assert [found.overridden for found in forced.logprobs(5, tuple(tokens))] == [
        token != int(raw[i].argmax()) for i, token in enumerate(tokens)
    ]


def test_the_number_of_a_token_is_that_of_its_place() -> None:
    logits = -torch.arange(1000)[None] * 1e-7  # nearly equal, in order of probability
    sampler = [RowSampling(temperature=1.0, seed=9)]
    places = [*range(12), 30, 7]  # a run of forced tokens takes numbers, too
    drawn = [int(chosen(sampler, logits, i)[0]) for i in places]
    assert drawn == [int(uniform(9, i) * 1000) for i in places]
