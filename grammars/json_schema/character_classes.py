"""The classes of characters that patterns name: digits, words, white space, the dot, general categories."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from grammars.json_schema.ecma_tree import NotRegular
from grammars.json_schema.regular import MAX_CODE_POINT, Ranges, ranges_minus

__all__ = ["CLASSES", "DOT", "EVERY", "WIDE_DOT", "WORD", "category"]

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
DOT = ranges_minus(EVERY, ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)))
WIDE_DOT = ranges_minus(EVERY, ((0x0A, 0x0A),))
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


@lru_cache(maxsize=64)
def category(name: str) -> Ranges:
    """The code points of a general category (Unicode of this Python's ``unicodedata``)."""
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
    out: list[tuple[int, int]] = []
    for code in range(MAX_CODE_POINT + 1):
        if unicodedata.category(chr(code)).startswith(prefixes):
            if out and out[-1][1] == code - 1:
                out[-1] = (out[-1][0], code)
            else:
                out.append((code, code))
    return tuple(out)
