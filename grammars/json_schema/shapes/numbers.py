"""Sets of numbers: the meaning of numeric keywords, their intersection and complement, and texts for single numbers.

A set is a tuple of `Numbers`, a union.  All arithmetic is exact (`fractions.Fraction`), so bounds beyond 2^53 and
decimal steps need no special case.  Texts have at most `MAX_DIGITS` digits on each side of the point, so that no model
can write digits without end (`grammars.json_schema.shapes.number_texts`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any

__all__ = [
    "ANY_NUMBER",
    "MAX_DIGITS",
    "Numbers",
    "complement",
    "decimal_text",
    "has_text",
    "intersect",
    "is_double",
    "listed_numbers",
    "num_decimals",
    "spellings",
    "tightened",
    "within_digits",
]

MAX_DIGITS = 64  #: digits before and after the point that a text may have

_MAX_LISTED = 256  # integer ranges of at most this size are listed when they have gaps


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers that satisfy every field.

    ``values`` (value and text) when the set is finite and listed; ``integer`` True for whole numbers only, False for
    fractional ones only, None for both.  ``steps``: multiples of each; ``not_steps``: multiples of none.  ``steps_at``:
    JSON pointers of the ``multipleOf`` keywords.
    """

    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    integer: bool | None = None
    steps: tuple[Fraction, ...] = ()
    not_steps: tuple[Fraction, ...] = ()
    excluded: frozenset[Fraction] = frozenset()
    values: tuple[tuple[Fraction, str], ...] | None = None
    steps_at: tuple[str, ...] = field(default=(), compare=False)

    def holds(self, value: Fraction) -> bool:
        """Whether ``value`` satisfies every field except ``values``."""
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        if self.high is not None and (value > self.high or (self.high_open and value == self.high)):
            return False
        if self.integer is not None and (value.denominator == 1) is not self.integer:
            return False
        if value in self.excluded or any((value / s).denominator != 1 for s in self.steps):
            return False
        return not any((value / s).denominator == 1 for s in self.not_steps)

    @property
    def step(self) -> Fraction | None:
        """The least common multiple of the steps (1 for plain integers)."""
        steps = (*self.steps, Fraction(1)) if self.integer else self.steps
        if not steps:
            return None
        bottom = lcm(*(s.denominator for s in steps))
        return Fraction(lcm(*(s.numerator * (bottom // s.denominator) for s in steps)), bottom)

    def is_empty(self) -> bool:
        """True only when surely no number is left."""
        if self.values is not None:
            return not self.values
        if self.integer is False and any(s.denominator == 1 for s in self.steps):
            return True
        step = self.step
        if step is not None and any((step / s).denominator == 1 for s in self.not_steps):
            return True
        if self.low is not None and self.high is not None:
            if self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)):
                return True
            if self.step is not None:
                first, last = self.index_range()
                if first > last:
                    return True
                if last - first < _MAX_LISTED:
                    return not any(self.holds(i * self.step) for i in range(first, last + 1))
            elif self.low == self.high:
                return not self.holds(self.low)
        return False

    def index_range(self) -> tuple[int, int]:
        """The first and last multiple of `step` inside the bounds, both of which must be set."""
        step = self.step
        if step is None or self.low is None or self.high is None:
            raise ValueError("index_range() needs a step and both bounds")
        first, last = ceil(self.low / step), floor(self.high / step)
        if self.low_open and first * step == self.low:
            first += 1
        if self.high_open and last * step == self.high:
            last -= 1
        return first, last

    def listed(self) -> Numbers:
        """The same set with its values listed, if it has at most 256 candidates."""
        if self.values is not None or self.step is None or self.low is None or self.high is None:
            return self
        first, last = self.index_range()
        if last - first >= _MAX_LISTED:
            return self
        multiples = [i * self.step for i in range(first, last + 1) if self.holds(i * self.step)]
        return Numbers(values=tuple((v, decimal_text(v)) for v in multiples))


ANY_NUMBER = Numbers()


def listed_numbers(values: Iterable[Any]) -> Numbers:
    """The set of these JSON numbers; of equal ones the first spelling is kept."""
    texts: dict[Fraction, str] = {}
    for value in values:
        texts.setdefault(
            Fraction(value) if isinstance(value, int) else Fraction(float.__repr__(value)), json.dumps(value)
        )
    return Numbers(values=tuple(texts.items()))


def intersect(one: Numbers, two: Numbers) -> Numbers:
    """The numbers in both sets."""
    if one.values is not None and two.values is not None:
        other = {v for v, _ in two.values}
        return Numbers(values=tuple((v, t) for v, t in one.values if v in other))
    if one.values is not None:
        return Numbers(values=tuple((v, t) for v, t in one.values if two.holds(v)))
    if two.values is not None:
        return intersect(two, one)
    low, low_open = _tighter(one.low, one.low_open, two.low, two.low_open, 1)
    high, high_open = _tighter(one.high, one.high_open, two.high, two.high_open, -1)
    if one.integer is not None and two.integer is not None and one.integer != two.integer:
        return Numbers(values=())
    return Numbers(
        low,
        low_open,
        high,
        high_open,
        two.integer if one.integer is None else one.integer,
        tuple(dict.fromkeys(one.steps + two.steps)),
        tuple(dict.fromkeys(one.not_steps + two.not_steps)),
        one.excluded | two.excluded,
        steps_at=tuple(dict.fromkeys(one.steps_at + two.steps_at)),
    )


def _tighter(
    a: Fraction | None, a_open: bool, b: Fraction | None, b_open: bool, sign: int
) -> tuple[Fraction | None, bool]:
    if a is None or b is None:
        return (b, b_open) if a is None else (a, a_open)
    if a == b:
        return a, a_open or b_open
    return (a, a_open) if (a > b) == (sign > 0) else (b, b_open)


def complement(numbers: Numbers) -> tuple[Numbers, ...]:
    """The numbers outside the set."""
    if numbers.values is not None:
        return (Numbers(excluded=frozenset(v for v, _ in numbers.values)),)
    out: list[Numbers] = []
    if numbers.low is not None:
        out.append(Numbers(high=numbers.low, high_open=not numbers.low_open))
    if numbers.high is not None:
        out.append(Numbers(low=numbers.high, low_open=not numbers.high_open))
    if numbers.integer is not None:
        out.append(Numbers(integer=not numbers.integer))
    out += [Numbers(not_steps=(s,)) for s in numbers.steps]
    out += [Numbers(steps=(s,)) for s in numbers.not_steps]
    if numbers.excluded:
        out.append(Numbers(values=tuple((v, decimal_text(v)) for v in sorted(numbers.excluded))))
    return tuple(out)


def decimal_text(value: Fraction) -> str:
    """``value``, which must have a finite decimal expansion, without exponent."""
    digits = num_decimals(value)
    if digits is None:
        raise ValueError(f"{value} has no finite decimal expansion")
    scaled = abs(value.numerator) * 10**digits // value.denominator
    body = str(scaled).rjust(digits + 1, "0")
    whole, fraction = (body[:-digits], body[-digits:]) if digits else (body, "")
    return ("-" if value < 0 else "") + whole + ("." + fraction if fraction else "")


def num_decimals(value: Fraction) -> int | None:
    """The number of digits after the point that ``value`` needs; None if its expansion is infinite."""
    cofactor, twos, fives = value.denominator, 0, 0
    while cofactor % 2 == 0:
        cofactor, twos = cofactor // 2, twos + 1
    while cofactor % 5 == 0:
        cofactor, fives = cofactor // 5, fives + 1
    return max(twos, fives) if cofactor == 1 else None


def spellings(value: Fraction, listed_text: str) -> tuple[str, ...]:
    """The texts that spell ``value``: its own, and without an exponent if it is an integer below 10**22."""
    texts = [listed_text]
    if value.denominator == 1 and abs(value) < 10**22:
        texts.append(str(value.numerator))
    return tuple(dict.fromkeys(texts))


def has_text(numbers: Numbers) -> bool:
    """Whether a number of the set that has a text was found: near 0, near the bounds, between them."""
    if numbers.values is not None:
        return bool(numbers.values)
    candidates = [Fraction(i, 10) for i in range(-9, 10)] + [Fraction(i) for i in range(-9, 10)]
    step = numbers.step
    for bound in (numbers.low, numbers.high):
        if bound is not None:
            unit = step or Fraction(1)
            near = floor(bound / unit)
            candidates += [(near + d) * unit for d in range(-2, 4)]
            candidates += [bound, bound + Fraction(1, 10), bound - Fraction(1, 10)]
    if step is not None:
        candidates += [step * i for i in range(-4, 5)]
    candidates += [c + s / 2 for s in numbers.not_steps for c in tuple(candidates)]
    if numbers.low is not None and numbers.high is not None:
        candidates.append((numbers.low + numbers.high) / 2)
    return any(numbers.holds(c) and num_decimals(c) is not None for c in candidates)


def within_digits(numbers: Numbers) -> Numbers:
    """The set with bounds that texts of `MAX_DIGITS` digits can reach; nothing where all are beyond."""
    grid, top = 10**MAX_DIGITS, Fraction(10**MAX_DIGITS)
    low, high = numbers.low, numbers.high
    if low is not None and (low * grid).denominator != 1:
        numbers = replace(numbers, low=Fraction(ceil(low * grid), grid), low_open=False)
    if high is not None and (high * grid).denominator != 1:
        numbers = replace(numbers, high=Fraction(floor(high * grid), grid), high_open=False)
    for bound, wall in ((low, -top), (high, top)):
        if bound is not None and (bound >= top if wall < 0 else bound <= -top):
            return Numbers(values=())
    # integers cannot reach such a bound, so it is dropped; numbers with an exponent could, so theirs is moved
    if low is not None and low <= -top:
        numbers = replace(numbers, low=None if numbers.integer else 1 - top, low_open=False)
    if high is not None and high >= top:
        numbers = replace(numbers, high=None if numbers.integer else top - 1, high_open=False)
    return numbers


def tightened(numbers: Numbers) -> Numbers:
    """The same set; if all are integers, its bounds are members, it has one step and no redundant exceptions."""
    if not numbers.integer or numbers.values is not None or numbers.step is None:
        return numbers
    step = numbers.step
    gaps = tuple(dict.fromkeys(Fraction(s.numerator) for s in numbers.not_steps))  # the whole multiples of each step
    if any((step / gap).denominator == 1 for gap in gaps):
        return Numbers(values=())
    excluded = frozenset(v for v in numbers.excluded if v.denominator == 1)
    out = replace(numbers, steps=(step,) if step != 1 else (), not_steps=gaps, excluded=excluded)
    if out.low is not None:
        low = _member(out, ceil(out.low / step) * step, step)
        out = replace(out, low=low, low_open=False)
    if out.high is not None:
        high = _member(out, floor(out.high / step) * step, -step)
        out = replace(out, high=high, high_open=False)
    return out


def _member(numbers: Numbers, first: Fraction, step: Fraction) -> Fraction:
    """The first member from ``first`` on; the 257th candidate if none before is a member."""
    for _ in range(_MAX_LISTED):
        if numbers.holds(first):
            return first
        first += step
    return first


def is_double(value: Fraction) -> bool:
    """Whether a reader that keeps doubles keeps the very number; also beyond the largest double."""
    return abs(value) > sys.float_info.max or Fraction(float(value)) == value
