"""The largest exponent of a number: the one that a double, and so nearly every JSON parser, can hold."""

from __future__ import annotations

import re

__all__ = ["has_large_exponent", "max_exponent"]

_LARGEST = "17976931348623157"  # digits of the largest double, which is 1.7976931348623157e308
_LEAST = 307  # without its sign: down to 1e-307 every double has full precision
_WITH_EXPONENT = re.compile(rb"(-?[0-9]+(?:\.[0-9]+)?)[eE]([-+]?)([0-9]+)")


def max_exponent(mantissa: str, *, is_negative: bool) -> int:
    """Return the largest exponent, without its sign, at which ``mantissa`` (``-12.5``) does not overflow a double.

    Negative exponents only lose digits; they are bounded as well, for parsers that compute exactly.
    """
    if is_negative:
        return _LEAST
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return _LEAST
    # the number is 0.DIGITS times ten to the power of ``size``
    size = len(whole.lstrip("0")) if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0")))
    return 308 - size + (digits.rstrip("0").ljust(17, "0") <= _LARGEST)


def has_large_exponent(text: bytes) -> bool:
    """Whether ``text`` has a number whose exponent a double cannot hold."""
    for found in _WITH_EXPONENT.finditer(text):
        mantissa, sign, exponent = found.groups()
        if int(exponent[:400]) > max_exponent(mantissa.decode(), is_negative=sign == b"-"):
            return True
    return False
