"""How large an exponent may get: what a double, and so nearly every reader of JSON, can hold."""

from __future__ import annotations

__all__ = ["most_exponent"]

_LARGEST = "17976931348623157"  # digits of the largest double, which is 1.7976931348623157e308
_LEAST = 307  # the least exponent whose numbers are all held in full precision, as a number without its sign


def most_exponent(mantissa: str, *, is_negative: bool) -> int:
    """The largest exponent, without its sign, that ``mantissa`` (``-12.5``) may have before it overflows a double.

    Negative exponents only lose digits; they are bounded alike, for readers that compute with all of them.
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
