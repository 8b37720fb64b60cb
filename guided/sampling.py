"""Sampling settings as values, and the random numbers of a row.

Settings that a request leaves open come from the model's generation config; without one the row is greedy.  The random
numbers are counter-based: number ``i`` of a row depends only on the row's seed and ``i``, so other rows, batch size,
device and rollbacks cannot change it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from special_tokens.errors import RequestError, shown

__all__ = [
    "ChoiceProbability",
    "RowSampling",
    "Sampling",
    "TokenLogprob",
    "check_bias",
    "per_row",
    "resolve",
    "row_seeds",
    "sampling_of",
    "uniform",
]

#: Top tokens per position, at most; OpenAI's clients ask for up to 20.
MAX_TOP = 100

#: Below this temperature a row is greedy: in float the best token has all the probability.
LEAST_TEMPERATURE = 1e-5

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling settings of one request; None leaves a setting to the model's generation config.

    ``temperature`` 0 is greedy.  ``repetition_penalty`` applies to tokens of prompt and answer, ``presence_penalty``
    and ``frequency_penalty`` to those of the answer only; ``logit_bias`` maps token ids to what is added to their
    logits.  ``n`` is the number of answers per prompt.  ``logprobs`` requests the log-probability of each generated
    token and of this many top tokens.  Without a temperature several answers are sampled, at 1.0 if the model is
    greedy.  Raises `RequestError` for values that are out of range.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    n: int = 1
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, low, high, expected in _RANGES:
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and low <= value <= high):
                raise RequestError(f"{shown(value)} is out of range", place=name, expected=expected)
        for name, low, high in (("top_k", 0, math.inf), ("n", 1, math.inf), ("logprobs", 0, MAX_TOP)):
            value = getattr(self, name)
            if value is not None and not (_is_integer(value) and low <= value <= high):
                expected = f"an integer of {low} or more" if high == math.inf else f"an integer from {low} to {high}"
                raise RequestError(f"{shown(value)} is out of range", place=name, expected=expected)
        if self.seed is not None and not _is_integer(self.seed):
            raise RequestError(f"{shown(self.seed)} is not a seed", place="seed", expected="an integer")
        if self.seed is not None and not -(1 << 63) <= self.seed <= _MASK:
            raise RequestError(f"{shown(self.seed)} is out of range", place="seed", expected="an integer of 64 bits")
        if not isinstance(self.logit_bias, Mapping):
            raise RequestError(
                f"{type(self.logit_bias).__name__} is not a bias", place="logit_bias", expected="token ids and numbers"
            )
        for token, bias in self.logit_bias.items():
            if not (_is_number(bias) and -100 <= bias <= 100):
                raise RequestError(
                    f"{shown(bias)} is out of range", place=f"logit_bias[{token}]", expected="-100 to 100"
                )


#: Name, minimum, maximum, and the range in words.
_RANGES: tuple[tuple[str, float, float, str], ...] = (
    ("temperature", 0.0, 1e6, "0 or more"),
    ("top_p", math.ulp(0.0), 1.0, "above 0, at most 1"),
    ("min_p", 0.0, 1.0, "0 to 1"),
    ("repetition_penalty", 1e-6, 1e6, "above 0 (0.000001 to 1000000)"),
    ("presence_penalty", -2.0, 2.0, "-2 to 2"),
    ("frequency_penalty", -2.0, 2.0, "-2 to 2"),
)


@dataclass(frozen=True, slots=True)
class RowSampling:
    """The resolved sampling of one row.  ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 filter nothing."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int = 0
    logprobs: int | None = None

    @property
    def is_greedy(self) -> bool:
        return self.temperature < LEAST_TEMPERATURE or self.top_k == 1

    @property
    def has_filter(self) -> bool:
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @property
    def has_penalty(self) -> bool:
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log-probabilities at the position of one generated token.

    ``logprob`` is the model's own (natural logarithm), before the mask; ``masked`` the one after mask, penalties and
    bias, before temperature and filters.  ``top`` and ``top_masked`` are the top tokens before and after, best first,
    as (id, log-probability).  ``num_allowed`` counts the legal tokens; ``removed`` is the model's probability (0 to 1)
    of all others; ``overridden`` says that the model's best token was masked.
    """

    token_id: int
    logprob: float
    masked: float
    top: tuple[tuple[int, float], ...] = ()
    top_masked: tuple[tuple[int, float], ...] = ()
    num_allowed: int = 0
    overridden: bool = False
    removed: float = 0.0


@dataclass(frozen=True, slots=True)
class ChoiceProbability:
    """The probability of one option of a choice as the whole answer.

    ``logprob`` is the model's log-probability of this text followed by an end token; ``probability`` is normalised
    over the options.
    """

    text: str
    probability: float
    logprob: float
    num_tokens: int


def sampling_of(options: dict[str, Any]) -> Sampling:
    """Remove the fields of `Sampling` from ``options`` and return them; also OpenAI's ``top_logprobs``."""
    names = {f.name for f in fields(Sampling)}
    given = {name: options.pop(name) for name in list(options) if name in names}
    if given.get("n", 1) != 1:
        raise RequestError(f"n={given['n']} for one answer", place="n", hint="use guide.generate for several answers")
    top = options.pop("top_logprobs", None)
    if isinstance(given.get("logprobs"), bool) or given.get("logprobs") is None:
        wanted = bool(given.pop("logprobs", False))
        if top is not None and not wanted:
            raise RequestError("top_logprobs without logprobs", place="top_logprobs", hint="set logprobs=True")
        given["logprobs"] = (top or 0) if wanted else None
    elif top is not None:
        raise RequestError(
            "logprobs and top_logprobs both give a number", place="top_logprobs", hint="set logprobs=True"
        )
    if given.get("logit_bias") is None:
        given.pop("logit_bias", None)
    return Sampling(**given)


def resolve(sampling: Sampling, defaults: Mapping[str, Any], *, vocab_size: int) -> tuple[RowSampling, ...]:
    """Return the ``n`` rows of one request; ``defaults`` are the fields that the model's generation config sets.

    Raises `RequestError` for ids outside the vocabulary.
    """

    def setting(name: str) -> Any:
        value = getattr(sampling, name)
        return defaults.get(name) if value is None else value

    temperature = sampling.temperature
    if temperature is None:
        wants = any(getattr(sampling, name) is not None for name in ("top_p", "top_k", "min_p"))
        sampled = wants or bool(defaults.get("do_sample")) or sampling.n > 1
        temperature = (defaults.get("temperature") or 1.0) if sampled else 0.0
    numbers: dict[str, Any] = {name: setting(name) for name, *_ in _RANGES} | {"temperature": temperature}
    numbers = {name: float(value) for name, value in numbers.items() if value is not None}
    row = RowSampling(
        **numbers,
        top_k=min(int(setting("top_k") or 0), vocab_size),
        logit_bias=_bias(sampling.logit_bias, vocab_size),
        logprobs=sampling.logprobs,
    )
    return tuple(replace(row, seed=seed) for seed in row_seeds(sampling.seed, sampling.n))


def row_seeds(seed: int | None, n: int) -> tuple[int, ...]:
    """Return the seeds of the ``n`` rows of one request: the seed (random if None), then seeds derived from it."""
    base = secrets.randbits(64) if seed is None else seed
    return (base, *(_mix((base & _MASK) + k * _GAMMA) for k in range(1, n)))


def uniform(seed: int, position: int) -> float:
    """Return random number ``position`` of the row with this seed, in [0, 1) with 53 bits.

    SplitMix64 (Steele, Lea and Flood, 2014), whose stream can be entered anywhere; the seed is mixed first, so that
    the streams of adjacent seeds are independent.
    """
    return (_mix(_mix(seed & _MASK) + (position + 1) * _GAMMA) >> 11) * 2.0**-53


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def check_bias(sampling: Sampling, vocab_size: int) -> None:
    """Raise `RequestError` for ids of ``logit_bias`` outside the vocabulary."""
    _bias(sampling.logit_bias, vocab_size)


def _bias(bias: Mapping[Any, float], vocab_size: int) -> tuple[tuple[int, float], ...]:
    """Return ``logit_bias`` with integer keys; in OpenAI's JSON they are strings."""
    out: list[tuple[int, float]] = []
    for key, value in bias.items():
        token: Any = key
        if isinstance(key, str) and key.isdecimal():
            token = int(key)
        if not _is_integer(token) or not 0 <= token < vocab_size:
            raise RequestError(
                f"{shown(key)} is not a token of this model",
                place="logit_bias",
                expected=f"ids from 0 to {vocab_size - 1}",
            )
        out.append((token, float(value)))
    return tuple(out)


def per_row(values: Any, num_rows: int, place: str) -> list[Any]:
    """Return one value per row: a list unchanged, another value repeated; raises `RequestError` for a wrong length."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        if len(values) != num_rows:
            raise RequestError(
                f"{len(values)} values for {num_rows} rows", place=place, expected="one value, or one per row"
            )
        return list(values)
    return [values] * num_rows


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_integer(value)  # an integer may be too large for a float


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
