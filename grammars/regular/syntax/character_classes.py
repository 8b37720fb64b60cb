"""The character classes that patterns name: digits, words, white space, the dot, general categories."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import chain

from grammars.regular.syntax.ecma_tree import NotRegular
from grammars.regular.terms import MAX_CODE_POINT, Ranges, chars, ranges_minus

__all__ = [
    "CATEGORIES",
    "CLASSES",
    "DOT",
    "EVERY",
    "SURROGATES",
    "WORD",
    "category",
    "writable",
]

_DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
EVERY: Ranges = ((0, MAX_CODE_POINT),)
SURROGATES: Ranges = ((0xD800, 0xDFFF),)
DOT = ranges_minus(EVERY, ((0x0A, 0x0A),))
CLASSES = {"d": _DIGIT, "w": WORD, "s": _SPACE}


_LONG_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M",
    "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N",
    "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
    "Punctuation": "P", "punct": "P",
    "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs",
    "Line_Separator": "Zl", "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc", "cntrl": "Cc",
    "Format": "Cf", "Private_Use": "Co",
}  # fmt: skip

#: The names of the general categories, the wide ones first.
CATEGORIES = tuple(sorted({*_LONG_NAMES.values()} - {"LC", "C", "Co"}, key=lambda name: (len(name), name)))


def category(name: str) -> Ranges:
    """Return the code points of a general category (Unicode version of this Python's ``unicodedata``)."""
    key, _, value = name.partition("=")
    wanted = value if key in ("General_Category", "gc") and value else name
    if wanted == "Any":
        return EVERY
    if wanted == "ASCII":
        return ((0, 0x7F),)
    short = _LONG_NAMES.get(wanted, wanted)
    prefixes = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
    if not all(p in _LONG_NAMES.values() or p in ("Cn", "Cs") for p in prefixes):
        raise NotRegular(f"the Unicode property {name!r}")
    return _of_categories(prefixes)


@lru_cache(maxsize=64)  # there are fewer
def _of_categories(prefixes: tuple[str, ...]) -> Ranges:
    several = [ranges for name, ranges in _categories().items() if name.startswith(prefixes)]
    merged: Ranges = chars(chain.from_iterable(several)).args
    return merged


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[tuple[int, int]]]:
    """The code points of each category of two letters."""
    runs: dict[str, list[tuple[int, int]]] = {}
    first, name = 0, unicodedata.category("\0")
    for code in range(1, MAX_CODE_POINT + 2):
        following = unicodedata.category(chr(code)) if code <= MAX_CODE_POINT else ""
        if following != name:
            runs.setdefault(name, []).append((first, code - 1))
            first, name = code, following
    return runs


def writable(ranges: Ranges) -> Ranges:
    """The class without surrogates, if it separates some of them or holds nothing else."""
    ((first, last),) = SURROGATES
    cuts = any(first <= low <= last or first <= high <= last for low, high in ranges)
    return ranges_minus(ranges, SURROGATES) if cuts else ranges
