"""Settings of sampling and the counted random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from guided.sampling import RowSampling, Sampling, per_row, resolve, row_seeds, sampling_of, uniform
from special_tokens.errors import RequestError


def rows(sampling: Sampling, **defaults: Any) -> tuple[RowSampling, ...]:
    return resolve(sampling, defaults, vocab_size=100)


def test_what_the_request_leaves_open_comes_from_the_model() -> None:
    config = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05}
    (row,) = rows(Sampling(top_p=0.5, seed=3), **config)
    assert row == RowSampling(0.7, 0.5, 20, 0.0, 1.05, seed=3)
    (row,) = rows(Sampling(temperature=0, seed=3), **config)
    assert row.is_greedy


def test_without_any_setting_the_model_is_greedy() -> None:
    assert rows(Sampling())[0].is_greedy
    assert rows(Sampling(top_p=0.5))[0].temperature == 1.0


def test_several_answers_are_sampled_unless_the_request_says_greedy() -> None:
    assert [row.temperature for row in rows(Sampling(n=2))] == [1.0, 1.0]
    assert [row.temperature for row in rows(Sampling(n=2), do_sample=True, temperature=0.4)] == [0.4, 0.4]
    for greedy in (Sampling(n=2, temperature=0), Sampling(n=2, temperature=1e-6), Sampling(n=2, top_k=1)):
        assert all(row.is_greedy for row in rows(greedy))


def test_random_numbers_are_uniform_and_unrelated() -> None:
    numbers = np.array([[uniform(seed, i) for i in range(2_000)] for seed in (0, 1, 2, -1, 2**63)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    for row in numbers:  # each decile holds 200 of 2,000; the chance of leaving 120..280 is below 1e-8
        counts, _ = np.histogram(row, bins=10, range=(0, 1))
        assert counts.min() > 120
        assert counts.max() < 280
    correlation = np.corrcoef(numbers) - np.eye(len(numbers))
    assert np.abs(correlation).max() < 0.12
    assert np.abs([np.corrcoef(row[:-1], row[1:])[0, 1] for row in numbers]).max() < 0.12


def test_the_first_of_n_rows_is_the_row_alone() -> None:
    assert row_seeds(7, 3)[0] == row_seeds(7, 1)[0] == 7
    assert len(set(row_seeds(7, 50))) == 50
    assert row_seeds(None, 1) != row_seeds(None, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sampling(temperature=-1), "temperature: -1 is out of range; expected 0 or more"),
        (lambda: Sampling(temperature=math.nan), "temperature: nan is out of range"),
        (lambda: Sampling(temperature=True), "temperature: True is out of range"),
        (lambda: Sampling(top_p=0), "top_p: 0 is out of range; expected above 0, at most 1"),
        (lambda: Sampling(top_p=1.1), r"top_p: 1\.1 is out of range"),
        (lambda: Sampling(min_p=-0.1), r"min_p: -0\.1 is out of range; expected 0 to 1"),
        (lambda: Sampling(top_k=-1), "top_k: -1 is out of range; expected an integer of 0 or more"),
        (lambda: Sampling(top_k=2.5), r"top_k: 2\.5 is out of range"),  # type: ignore[arg-type]
        (lambda: Sampling(repetition_penalty=0), "repetition_penalty: 0 is out of range; expected above 0"),
        (lambda: Sampling(presence_penalty=3), "presence_penalty: 3 is out of range; expected -2 to 2"),
        (lambda: Sampling(frequency_penalty=-3), "frequency_penalty: -3 is out of range"),
        (lambda: Sampling(n=0), "n: 0 is out of range; expected an integer of 1 or more"),
        (lambda: Sampling(logprobs=101), "logprobs: 101 is out of range; expected an integer from 0 to 100"),
        (lambda: Sampling(seed="x"), "seed: 'x' is not a seed; expected an integer"),  # type: ignore[arg-type]
        (lambda: Sampling(seed=2**64), "seed: 18446744073709551616 is out of range; expected an integer of 64 bits"),
        (lambda: Sampling(logit_bias={3: 101}), r"logit_bias\[3\]: 101 is out of range; expected -100 to 100"),
        (lambda: Sampling(repetition_penalty=5e-324), "repetition_penalty: 5e-324 is out of range; expected above 0"),
        (lambda: rows(Sampling(logit_bias={100: 1})), "logit_bias: 100 is not a token of this model"),
        (lambda: rows(Sampling(logit_bias={"a": 1})), "logit_bias: 'a' is not a token of this model"),  # type: ignore[dict-item]
        (lambda: per_row([1, 2], 3, "seed"), "seed: 2 values for 3 rows; expected one value, or one per row"),
        (lambda: sampling_of({"n": 2}), "n: n=2 for one answer"),
        (lambda: sampling_of({"top_logprobs": 2}), "top_logprobs: top_logprobs without logprobs"),
        (lambda: sampling_of({"top_logprobs": 2, "logprobs": 3}), "logprobs and top_logprobs both give a number"),
    ],
)
def test_settings_that_cannot_be_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        make()


@pytest.mark.parametrize("top_k", [100, 2**31, 2**63, 10**30])
def test_a_top_k_beyond_the_vocabulary_filters_nothing(top_k: int) -> None:
    assert rows(Sampling(top_k=top_k, temperature=1.0, seed=1))[0].top_k == 100


def test_openais_words_for_logprobs() -> None:
    options = {"logprobs": True, "top_logprobs": 3, "temperature": 0.5, "tools": []}
    assert sampling_of(options) == Sampling(logprobs=3, temperature=0.5)
    assert options == {"tools": []}
    assert sampling_of({"logprobs": False}).logprobs is None
    assert sampling_of({"logprobs": True}).logprobs == 0
    assert sampling_of({"logprobs": 4}).logprobs == 4
    assert sampling_of({"logit_bias": None}).logit_bias == {}


def test_bias_takes_ids_as_json_writes_them() -> None:
    assert rows(Sampling(logit_bias={"7": 1.5}))[0].logit_bias == ((7, 1.5),)  # type: ignore[dict-item]
