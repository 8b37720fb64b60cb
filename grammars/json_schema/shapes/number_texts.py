"""The texts that spell a set of numbers, as regexes of whole lexemes whose intersection is the set.

An integer has no point and no exponent.  Ranges are compared digit by digit, so a number has an exponent only in the
form that ``json.dumps`` writes (one digit before the point) and only where every such number is allowed; where all
numbers are allowed, a short exponent may follow any digits.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from grammars.json_schema.shapes.numbers import MAX_DIGITS, Numbers, decimal_text, num_decimals

__all__ = ["FARTHEST", "Digits", "digits", "multiples_regex", "regexes", "signed_bounds"]

_SMALL = "[eE]-0?[1-9][0-9]?|[eE]-[12][0-9]{2}|[eE]-30[0-7]"
_LARGE = "[eE]\\+?0?[1-9][0-9]?|[eE]\\+?[12][0-9]{2}|[eE]\\+?30[0-7]"
_SHORT_MANTISSA = "[1-9](?:\\.[0-9]{1,14})?"
_SAFE_DIGITS = 15  # decimals of at most 15 digits are all different as doubles
#: Numbers of at most 15 digits: for each of five limits on the digits before the point, the rest after it.
_SHORT = (
    "-?(?:"
    + "|".join(f"(?:0|[1-9][0-9]{{0,{n - 1}}})(?:\\.[0-9]{{1,{_SAFE_DIGITS - n}}})?" for n in (2, 5, 8, 11, 14))
    + ")"
)
_ZEROS = "(?:\\.0+)?"
_BROKEN = "-?[0-9]+\\.[0-9]*[1-9][0-9]*"  # no integer
_MAX_DECIMALS = 12  # of bounds and steps that numbers of 15 digits can resolve
FARTHEST = 10**13  #: the largest bound that they can resolve


class _Parts(NamedTuple):
    """The parts of texts with at most ``most`` digits on each side of the point.

    ``tail`` is the rest after the digits of an integer; ``top`` are the doubles with the largest exponent.
    """

    most: int
    tail: str
    integer: str
    mantissa: str
    long_whole: str
    top: str


@lru_cache(maxsize=4)
def _parts(most: int) -> _Parts:
    return _Parts(
        most,
        f"(?:\\.[0-9]{{1,{most}}})?",
        f"-?(?:0|[1-9][0-9]{{0,{most - 1}}})",
        f"[1-9](?:\\.[0-9]{{1,{most}}})?",
        f"-?[1-9][0-9]{{14,{most - 1}}}",
        f"1(?:\\.(?:{_up_to(_LARGEST, most)}))?[eE]\\+?308",
    )


_LARGEST = "7976931348623157"  # digits after the point of the largest double, which is 1.7976931348623157e308


def _up_to(digits: str, most: int) -> str:
    """The digits after a point, at most ``most``, of decimals up to the one of these ``digits``, none of which is 0."""
    first, other_digits = digits[0], digits[1:]
    longer = f"(?:{_up_to(other_digits, most - 1)})?" if other_digits else ""
    return f"[0-{int(first) - 1}][0-9]{{0,{most - 1}}}|{first}{longer}"


# Readers keep doubles, which distinguish all numbers of 15 digits but no more: 0.99999999999999999999 is read as 1.  So
# numbers are short where that would matter.
class Digits(Enum):
    """The number of digits that the texts of a set have."""

    FREE = "up to the limit: doubles distinguish what must be distinguished, or all numbers are integers"
    NEAR = "at most 15 where they have a point and are near the bounds"
    SHORT = "at most 15"
    LOST = "up to the limit, although doubles do not distinguish what must be distinguished"


def digits(numbers: Numbers) -> Digits:
    """The digits to write, so that a reader that keeps doubles finds the number inside the set."""
    if numbers.integer or numbers.values is not None:
        return Digits.FREE
    if numbers.integer is False or numbers.steps or numbers.not_steps:
        wanted = Digits.SHORT
    elif numbers.low_open or numbers.high_open or numbers.excluded:
        wanted = Digits.NEAR
    else:
        return Digits.FREE
    near = [b for b in (numbers.low, numbers.high) if b is not None]
    sizes = [num_decimals(v) for v in (*near, *numbers.steps, *numbers.not_steps, *numbers.excluded)]
    reachable = (numbers.low is None or numbers.low < FARTHEST) and (numbers.high is None or numbers.high > -FARTHEST)
    return wanted if reachable and all(n is not None and n <= _MAX_DECIMALS for n in sizes) else Digits.LOST


# A text of the set that is not a proper prefix of another one must leave each regex with nothing but the empty text:
# only then does the engine see an intersection as finished, and it fails where only the end may follow.  So integers
# have bounds that are members of the set (`numbers.tightened`) and regexes without fractions, and every other number
# may continue with zeros until its digits are used up.
def regexes(numbers: Numbers, most: int = MAX_DIGITS) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``(all of these, none of these)``: regexes that together spell the set, which must be `tightened` and not listed.

    Texts have at most ``most`` digits on each side of the point, which must be as many as those of the set's bounds.
    ``steps`` that the last digits do not decide are left out: see `multiples_regex`.
    """
    parts = _parts(most)
    wanted = _base(numbers, parts)
    whole = bool(numbers.integer)
    if numbers.low is not None:
        wanted.append(_at_least(numbers.low, numbers.low_open, whole, parts) + _exponents(numbers, parts))
    if numbers.high is not None:
        wanted.append(_at_most(numbers.high, numbers.high_open, whole, parts) + _exponents(numbers, parts))
    decided = [regex for s in numbers.steps if (regex := multiples_regex(s)) is not None]
    wanted += decided
    unwanted = [f"-?{_plain(v)}" if v == 0 else _plain(v) for v in sorted(numbers.excluded)]
    unwanted += [regex for s in numbers.not_steps if (regex := multiples_regex(s)) is not None]
    return tuple(dict.fromkeys(wanted)), tuple(unwanted)


def _base(numbers: Numbers, parts: _Parts) -> list[str]:
    if numbers.integer:
        return [parts.integer]
    size = digits(numbers)
    whole_too = not numbers.not_steps and all(
        s.numerator == 1 for s in numbers.steps
    )  # then every integer is a multiple
    short = f"{_SHORT}|{parts.long_whole}(?:\\.0{{1,{parts.most}}})?" if whole_too else _SHORT
    near = f"{_SHORT}|{parts.long_whole}{parts.tail}"
    plain = {Digits.SHORT: short, Digits.NEAR: near}.get(size, parts.integer + parts.tail)
    if numbers.integer is False:
        return [_SHORT if size is Digits.SHORT else plain, _BROKEN]
    if numbers.low is None and numbers.high is None and not _has_gaps(numbers):
        short = f"{plain}(?:[eE][+-]?0?[0-9]{{1,2}})?"
        return [f"{short}|-?{parts.mantissa}[eE][+-]?(?:[12][0-9]{{2}}|30[0-7])|-?{parts.top}"]
    return [plain + _exponents(numbers, parts)]


def _has_gaps(numbers: Numbers) -> bool:
    return bool(numbers.steps or numbers.not_steps or numbers.excluded)


def _exponents(numbers: Numbers, parts: _Parts) -> str:
    """Alternatives with exponents that lie wholly inside the bounds: (0, 1), [10, oo) and their mirror images."""
    if numbers.integer is not None or _has_gaps(numbers):
        return ""
    low, high = numbers.low, numbers.high
    mantissa = parts.mantissa if digits(numbers) is Digits.FREE else _SHORT_MANTISSA
    out = ""
    if (low is None or low <= 0) and (high is None or high >= 1):
        out += f"|{mantissa}(?:{_SMALL})"
    if (high is None or high >= 0) and (low is None or low <= -1):
        out += f"|-{mantissa}(?:{_SMALL})"
    if (low is None or low < 10) and high is None:
        out += f"|{mantissa}(?:{_LARGE})|{parts.top}"
    if (high is None or high > -10) and low is None:
        out += f"|-{mantissa}(?:{_LARGE})|-{parts.top}"
    return out


def _plain(value: Fraction) -> str:
    body = decimal_text(value).replace(".", "\\.")
    return body + ("0*" if "." in body else "(?:\\.0+)?")


def _at_least(bound: Fraction, is_open: bool, whole: bool, parts: _Parts) -> str:
    tail = "" if whole else parts.tail
    if bound > 0:
        return _above(bound, is_open, whole, parts)
    if bound == 0:
        return _above(bound, True, whole, parts) if is_open else f"-?0{'' if whole else _ZEROS}|[0-9]+{tail}"
    return f"[0-9]+{tail}|-(?:{_below(-bound, is_open, whole, parts)})"


def _at_most(bound: Fraction, is_open: bool, whole: bool, parts: _Parts) -> str:
    tail = "" if whole else parts.tail
    if bound < 0:
        return f"-(?:{_above(-bound, is_open, whole, parts)})"
    if bound == 0:
        return f"-(?:{_above(bound, True, whole, parts)})" if is_open else f"0{'' if whole else _ZEROS}|-[0-9]+{tail}"
    return f"-[0-9]+{tail}|{_below(bound, is_open, whole, parts)}"


def signed_bounds(
    low: Fraction | None, high: Fraction | None, *, low_open: bool = False, high_open: bool = False, whole: bool = False
) -> tuple[str, ...]:
    """A regex for each bound that is there: decimals without exponent within it, or integers if ``whole``."""
    parts = _parts(MAX_DIGITS)
    lower = () if low is None else (_at_least(low, low_open, whole, parts),)
    return lower if high is None else (*lower, _at_most(high, high_open, whole, parts))


def _split(bound: Fraction) -> tuple[str, str]:
    """Whole digits and fraction digits of a bound.  Raises `ValueError` if it has more than `MAX_DIGITS` decimals."""
    digits = num_decimals(bound)
    if digits is None or digits > MAX_DIGITS:
        raise ValueError(f"the bound {bound} is not a decimal of {MAX_DIGITS} digits")
    whole, _, fraction = decimal_text(bound).partition(".")
    return whole, fraction


def _any_digits(count: int) -> str:
    return f"[0-9]{{{count}}}" if count > 1 else "[0-9]" * count


def _above(bound: Fraction, is_open: bool, whole: bool, parts: _Parts) -> str:
    """Unsigned decimals greater than (or equal to, unless ``is_open``) ``bound`` >= 0; ``whole``: integers only."""
    head, fraction = _split(bound)
    size, tail = len(head), "" if whole else parts.tail
    options = [f"[1-9][0-9]{{{size},{max(size, parts.most - 1)}}}{tail}"]
    for i, digit in enumerate(head):
        if digit != "9":
            options.append(f"{head[:i]}[{int(digit) + 1}-9]{_any_digits(size - i - 1)}{tail}")
    if not whole:
        greater = [f"{fraction[:j]}[{int(d) + 1}-9][0-9]*" for j, d in enumerate(fraction) if d != "9"]
        greater.append(f"{fraction}[0-9]*" if not is_open and fraction else f"{fraction}[0-9]*[1-9][0-9]*")
        options.append(f"{head}\\.(?:{'|'.join(greater)})")
    if not is_open and not fraction:
        options.append(f"{head}{tail}")
    return "|".join(options)


def _below(bound: Fraction, is_open: bool, whole: bool, parts: _Parts) -> str:
    """Unsigned decimals less than (or equal to, unless ``is_open``) ``bound`` > 0; ``whole``: integers only."""
    head, fraction = _split(bound)
    size, tail = len(head), "" if whole else parts.tail
    options = []
    if size > 1:
        options.append(f"(?:0|[1-9][0-9]{{0,{size - 2}}}){tail}")
    for i, digit in enumerate(head):
        first = "1" if i == 0 and size > 1 else "0"
        if digit > first:
            options.append(f"{head[:i]}[{first}-{int(digit) - 1}]{_any_digits(size - i - 1)}{tail}")
    if whole:
        return "|".join([*options, head] if fraction or not is_open else options)
    smaller = [f"{fraction[:j]}[0-{int(d) - 1}][0-9]*" for j, d in enumerate(fraction) if d != "0"]
    smaller += [f"{fraction[:j]}" for j in range(1, len(fraction)) if fraction[j:].strip("0")]
    if not is_open:
        smaller.append(f"{fraction}0*" if fraction else "0+")
    if fraction or not is_open:
        options.append(f"{head}(?:\\.(?:{'|'.join(dict.fromkeys(smaller))}))?")
    return "|".join(options)


def multiples_regex(step: Fraction) -> str | None:
    """A regex of the multiples of ``step`` if their last digits decide; None otherwise (3, 7, 1.5)."""
    digits = num_decimals(step)
    if digits is None or digits > 40:
        return None
    scaled = step * 10**digits
    count, shift = scaled.numerator, 0
    while count % 10 == 0:
        count, shift = count // 10, shift + 1
    size = next((n for n in (0, 1, 2, 3) if 10**n % count == 0), None)
    if size is None:
        return None
    # the unit is 10**(shift - digits): `size` digits above it must be a multiple of `count`
    tails = [str(i * count).rjust(size, "0") for i in range(10**size // count)] if size else [""]
    return _multiples_of_digits(tails, size, shift - digits)


def _multiples_of_digits(tails: list[str], size: int, exponent: int) -> str:
    """Decimals whose digits from 10**exponent up end with one of ``tails``, with zeros below."""
    top = exponent + size  # digits at or above 10**top are free
    options = []
    for tail in tails:
        below = "0" * max(exponent, 0)
        if top <= 0:  # all decided digits are after the point
            lead, frac = "[0-9]+", _any_digits(-top) + tail
        elif exponent >= 0:
            lead, frac = f"[0-9]*{tail}{below}", ""
        else:
            lead, frac = f"[0-9]*{tail[:top]}", tail[top:]
        options += _with_fraction(lead, frac, -top if top <= 0 else 0)
        if top > 0:  # short numbers: the digits that are not written are zeros
            short = (tail[:top] if exponent < 0 else tail + below).lstrip("0") or "0"
            options += _with_fraction(short, frac, 0)
    return "-?(?:" + "|".join(dict.fromkeys(options)) + ")"


def _with_fraction(lead: str, fraction: str, free: int) -> list[str]:
    """``lead`` with the fraction in full, followed by zeros, or cut where only zeros are cut."""
    if not fraction:
        return [f"{lead}(?:\\.0+)?"]
    out = [f"{lead}\\.{fraction}0*"]
    tail = fraction.replace("[0-9]", "") if not free else ""
    if free:
        decided = fraction.split("]")[-1].split("}")[-1]
        if not decided.strip("0"):
            out.append(f"{lead}(?:\\.[0-9]{{1,{free}}})?")
        cuts = [cut for cut in range(1, len(decided)) if not decided[cut:].strip("0")]
        out += [f"{lead}\\.{_any_digits(free)}{decided[:cut]}" for cut in cuts]
    else:
        cuts = [cut for cut in range(len(tail)) if not tail[cut:].strip("0")]
        out += [f"{lead}\\.{tail[:cut]}" if cut else lead for cut in cuts]
    return out
