"""Numbers between bounds that 64 digits without an exponent cannot express: beyond 1e64, and nearer to 0 than 1e-64.

Their texts have one digit before the point and an exponent.  They are compared as decimals with bounds that are the
shortest texts of doubles, so a reader that rounds to the nearest double finds the number inside as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fractions import Fraction
from math import inf, nextafter

from grammars.json_schema.shapes.number_texts import at_least, at_most
from grammars.json_schema.shapes.numbers import MAX_DIGITS, Numbers, within_digits

__all__ = ["extreme_regexes", "extreme_text"]

_FIRST, _LAST = -307, 308  # exponents of doubles with full precision
_LEAST, _MOST = Fraction(1, 10**-_FIRST), Fraction(repr(sys.float_info.max))
_MANTISSA = f"[1-9](?:\\.[0-9]{{1,{MAX_DIGITS}}})?"


def extreme_regexes(numbers: Numbers) -> tuple[str, str] | None:
    """Two regexes whose intersection is the texts of the set; None if digits without an exponent can spell it."""
    ends = _ends(numbers)
    if ends is None:
        return None
    low, high, sign = ends
    (first, least), (last, most) = map(_scientific, (low, high))
    above = f"{sign}(?:(?:{at_least(least)}){_exponents([first])}|{_MANTISSA}{_exponents(range(first + 1, _LAST + 1))})"
    below = f"{sign}(?:(?:{at_most(most)}){_exponents([last])}|{_MANTISSA}{_exponents(range(_FIRST, last))})"
    return above, below


def extreme_text(numbers: Numbers) -> str | None:
    """A text of the set; None if digits without an exponent can spell it."""
    ends = _ends(numbers)
    return None if ends is None else f"{ends[2]}{float(ends[0])!r}"


def _ends(numbers: Numbers) -> tuple[Fraction, Fraction, str] | None:
    """The smallest and the largest absolute value, both of them texts of the set, and the sign."""
    if numbers.integer is not None or numbers.values is not None:
        return None
    if numbers.steps or numbers.not_steps or numbers.excluded or not _is_extreme(numbers):
        return None
    sign = ""
    if numbers.high is not None and numbers.high <= 0:
        numbers, sign = _mirrored(numbers), "-"
    if numbers.low is None or numbers.low < 0:
        return None
    least = _edge(max(numbers.low, _LEAST), numbers.low_open and numbers.low >= _LEAST, inf)
    top = _MOST if numbers.high is None else min(numbers.high, _MOST)
    most = _edge(top, numbers.high_open and top == numbers.high, -inf)
    return (least, most, sign) if least is not None and most is not None and least <= most else None


def _mirrored(numbers: Numbers) -> Numbers:
    """The set with every sign changed."""
    low = None if numbers.high is None else -numbers.high
    high = None if numbers.low is None else -numbers.low
    return Numbers(low, numbers.high_open, high, numbers.low_open)


def _is_extreme(numbers: Numbers) -> bool:
    """Whether digits without an exponent can write nothing of the set, or only its bound."""
    reached = within_digits(numbers)
    return reached.values is not None or reached.is_empty()


def _edge(bound: Fraction, is_open: bool, way: float) -> Fraction | None:
    """The first double inside the bound, by its shortest text; not the bound itself where that is excluded."""
    if not _LEAST <= bound <= _MOST:
        return None
    value = float(bound)
    if is_open or Fraction(repr(value)) != bound:
        value = nextafter(value, way)
    return Fraction(repr(value)) if abs(value) < inf else None


def _scientific(value: Fraction) -> tuple[int, Fraction]:
    """The exponent and the mantissa, which is at least 1 and below 10."""
    exponent = int(f"{float(value):.17e}".partition("e")[2])
    while value >= Fraction(10) ** (exponent + 1):
        exponent += 1
    while value < Fraction(10) ** exponent:
        exponent -= 1
    return exponent, value / Fraction(10) ** exponent


def _exponents(wanted: Iterable[int]) -> str:
    """A regex of exponents as ``json.dumps`` writes them, or with a capital E; the plus is optional."""
    texts = "|".join(f"-0?{-n}" if n < 0 else f"\\+?0?{n}" for n in wanted)
    return f"[eE](?:{texts})" if texts else "[^\\s\\S]"
