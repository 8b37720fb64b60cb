"""The character classes of Rust's ``regex``: Unicode's digits, words and spaces, POSIX names, operators."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import cast

from grammars.regular.languages import Ranges, chars, ranges_minus

__all__ = ["POSIX", "combined", "unicode_class"]

POSIX = {  # first and last characters, pair by pair
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\x00\x7f", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ",
    "upper": "AZ", "word": "09AZ__az", "xdigit": "09AFaf",
}  # fmt: skip


def combined(operator: str, left: Ranges, right: Ranges) -> Ranges:
    """The class of two classes around an operator, the right one where there is none."""
    match operator:
        case "&&":
            return ranges_minus(left, ranges_minus(left, right))
        case "--":
            return ranges_minus(left, right)
        case "~~":
            return cast(Ranges, chars((*ranges_minus(left, right), *ranges_minus(right, left))).args)
    return right


#: After this code point only variation selectors are assigned, which count as parts of words.
_LAST_ASSIGNED, _SELECTORS = 0x323AF, ((0xE0100, 0xE01EF),)
#: Symbols that are letters: in circles and in squares.
_SYMBOLS: Ranges = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_SPACES: Ranges = (
    (0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip


@lru_cache(maxsize=3)
def unicode_class(name: str) -> Ranges:
    """``\\d``, ``\\w``, ``\\s`` as the engine defines them: for all scripts."""
    if name == "s":
        return _SPACES
    kinds = {"Nd"} if name == "d" else {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"}
    ranges = [(code, code) for code in range(_LAST_ASSIGNED + 1) if unicodedata.category(chr(code)) in kinds]
    if name == "w":
        ranges += [(0x200C, 0x200D), *_SELECTORS, *_SYMBOLS]
    return chars(ranges).args  # type: ignore[no-any-return]
