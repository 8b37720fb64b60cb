"""Floats for the engine's ``multipleOf``: it multiplies a float by ten until it is whole, rounding errors included.

0.07 becomes 7000000000000001 / 10**17 that way.  So a step is passed as a float that the engine reads exactly, which
may be a neighbour of the nearest one, or as two such steps whose least common multiple it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import gcd, inf, nextafter

from grammars.json_schema.shapes.numbers import num_decimals

__all__ = ["engine_steps"]

_NEIGHBOURS = 4  # doubles looked at on each side of a step
_SAFE = 2**53  # smaller significands are scaled by an exact power of ten: the result is the nearest double
_WORD = 2**32  # the engine computes common multiples in 32 bits
_MOST_PARTS = 10_000  # divisors of a step that are tried: its significand may be 10**19
_SPLITS = tuple(2**twos * 5**fives for twos in range(5) for fives in range(5))


@lru_cache(maxsize=1_024)
def engine_steps(step: Fraction) -> tuple[float, ...] | None:
    """One or two floats for which the engine allows exactly the multiples of ``step``; None if none were found."""
    places = num_decimals(step)
    if places is None:
        return None
    whole = _readable(step)
    if whole is not None:
        return (whole,)
    count = (step * 10**places).numerator
    found: list[tuple[int, float]] = []
    for part in sorted({own * split for own in _divisors(count) for split in _SPLITS}):
        one = _readable(step / part) if part > 1 else None
        if one is None:
            continue
        for other, two in found:  # the common multiple of step / m and step / n is step / gcd(m, n)
            if gcd(part, other) == 1 and _fits(step / part, step / other):
                return one, two
        found.append((part, one))
    return None


def _divisors(count: int) -> Iterator[int]:
    return (n for n in range(1, min(count, _MOST_PARTS) + 1) if count % n == 0)


def _fits(one: Fraction, two: Fraction) -> bool:
    """Whether the engine can multiply both, scaled to the larger number of decimals."""
    unit = Fraction(10 ** max(num_decimals(one) or 0, num_decimals(two) or 0))
    return one * unit * two * unit < _WORD


def _readable(step: Fraction) -> float | None:
    """A float that the engine reads as ``step``, the nearest first."""
    return next((value for value in _near(float(step)) if _significand(value) < _SAFE and _read(value) == step), None)


def _near(value: float) -> Iterator[float]:
    yield value
    below = above = value
    for _ in range(_NEIGHBOURS):
        below, above = nextafter(below, -inf), nextafter(above, inf)
        yield below
        yield above


def _significand(value: float) -> int:
    """The digits of the shortest text, as an integer."""
    return int(repr(value).partition("e")[0].replace(".", ""))


def _read(value: float) -> Fraction | None:
    """The step that the engine makes of a float; None if it is out of the engine's range."""
    places = 0
    while not value.is_integer():
        value, places = value * 10.0, places + 1
    return Fraction(int(value), 10**places) if 0 < value < _WORD else None
