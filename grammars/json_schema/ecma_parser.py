"""The parser of patterns of ECMA-262: text to a tree of regular terms and assertions.

Deviations from ECMA-262, all towards what the validators do: the ``u`` flag's code points but the lax escapes of
annex B (``\\-``), ``\\A`` and ``\\Z`` as anchors, a leading ``(?i)`` obeyed.  Lone surrogates, which no text holds, are
cut out of the classes that begin or end with one; none is left of a class, or a character, that is nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from grammars.json_schema.ecma_tree import (
    END,
    START,
    Edge,
    InvalidPattern,
    Look,
    NotRegular,
    Rep,
    Tree,
    tree_alt,
    tree_cat,
)
from grammars.json_schema.regular import EPS, MAX_CODE_POINT, Ranges, Regular, chars, ranges_minus, rep, text

__all__ = ["WORD", "Parser"]
__all__ = ["WORD", "Parser", "has_disputed_classes"]
MAX_GROUPS = 60  #: nested groups; deeper patterns are refused before Python's own stack is at risk

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
_EVERY: Ranges = ((0, MAX_CODE_POINT),)
_DOT = ranges_minus(_EVERY, ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)))
_WIDE_DOT = ranges_minus(_EVERY, ((0x0A, 0x0A),))
_CLASSES = {"d": _DIGIT, "w": WORD, "s": _SPACE}
_SURROGATES: Ranges = ((0xD800, 0xDFFF),)
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


#: Beside look-around validators read ``\\w``, ``\\d`` and ``\\s`` by Unicode, all of them; else only Python's do.
_LOOKS = re.compile(r"\(\?<?[=!]")
_SHORT_CLASS = re.compile(r"\\[wWdDsS]")
_BEYOND: dict[str, Ranges] = {
    "d": ((0x80, MAX_CODE_POINT),),  # more than differs: all its ranges would be too many for a grammar
    "w": ((0x80, MAX_CODE_POINT),),
    "s": ((0x1C, 0x1F), (0x85, 0x85), (0xFEFF, 0xFEFF)),
}


def has_disputed_classes(pattern: str) -> bool:
    """Does a pattern with look-around ask for classes of characters that validators read by Unicode?"""
    return "(?" in pattern and bool(_LOOKS.search(pattern) and _SHORT_CLASS.search(pattern))


class Parser:
    """``wide``: whether ``.`` takes all line separators but the newline; what is negated is read the other way.

    So are the classes of `has_disputed_classes`, with what is disputed or without it.  None is ECMA-262 throughout: no
    separator at all.
    """

    def __init__(self, pattern: str, *, wide: bool | None = None) -> None:
        self.pattern = pattern
        self.wide = wide
        self.at = 0
        self.depth = 0
        self.ignore_case = False
        self.disputed = wide is not None and has_disputed_classes(pattern)

    def parse(self) -> Tree:
        if self.pattern.startswith("(?i)"):
            self.ignore_case, self.at = True, 4
        tree = self._alternation()
        if self.at < len(self.pattern):
            raise InvalidPattern(f"unmatched ')' at character {self.at}")
        return tree

    def _peek(self, size: int = 1) -> str:
        return self.pattern[self.at : self.at + size]

    def _take(self, size: int = 1) -> str:
        found = self.pattern[self.at : self.at + size]
        if len(found) < size:
            raise InvalidPattern("the pattern ends too early")
        self.at += size
        return found

    def _alternation(self) -> Tree:
        options = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            options.append(self._sequence())
        return tree_alt(options)

    def _sequence(self) -> Tree:
        parts: list[Tree] = []
        literal: list[str] = []  # joined at the end: long literals would be quadratic otherwise
        while self._peek() not in ("", "|", ")"):
            start = self.at
            atom = self._atom()
            low, high = self._quantifier()
            if isinstance(atom, Edge | Look) and (low, high) != (1, 1):
                if isinstance(atom, Edge) and self.pattern[start] not in "^$(":
                    raise InvalidPattern(f"nothing to repeat at character {start}")
                atom = EPS if low == 0 else atom  # an optional assertion asserts nothing
                low = high = 1
            if isinstance(atom, Regular) and atom.op == "words" and len(atom.args) == 1 and (low, high) == (1, 1):
                literal.extend(atom.args)
                continue
            if literal:
                parts.append(text("".join(literal)))
                literal = []
            parts.append(self._repeated(atom, low, high))
        if literal:
            parts.append(text("".join(literal)))
        return tree_cat(parts)

    def _repeated(self, atom: Tree, low: int, high: int | None) -> Tree:
        if high is not None and high < low:
            raise InvalidPattern(f"repeat from {low} to {high}")
        if isinstance(atom, Regular):
            return rep(atom, low, high)
        return atom if (low, high) == (1, 1) else Rep(atom, low, high)

    def _quantifier(self) -> tuple[int, int | None]:
        found = self._peek()
        bounds: tuple[int, int | None] = (1, 1)
        if found in ("*", "+", "?") and found:
            self.at += 1
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[found]
        elif found == "{" and (braces := self._braces()) is not None:
            bounds = braces
        else:
            return bounds
        if self._peek() == "?":  # lazy: the same language
            self.at += 1
        elif self._peek() in ("*", "+") and self._peek():
            raise InvalidPattern(f"nothing to repeat at character {self.at}")
        return bounds

    def _braces(self) -> tuple[int, int | None] | None:
        """``{m}``, ``{m,}``, ``{m,n}``; anything else is literal text (annex B)."""
        end = self.pattern.find("}", self.at)
        inner = self.pattern[self.at + 1 : end] if end > 0 else ""
        low, comma, high = inner.partition(",")
        if comma and not low and (not high or (high.isascii() and high.isdigit())):
            raise NotRegular(f"{{{inner}}}, which is text by ECMA-262 and a repeat to Python's validators")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None
        if len(low) > 9 or len(high) > 9:
            raise NotRegular(f"a repeat of {inner}")
        self.at = end + 1
        return int(low), int(high) if high else None if comma else int(low)

    def _atom(self) -> Tree:
        char = self._take()
        match char:
            case "^":
                return START
            case "$":
                return END
            case ".":
                return chars(_WIDE_DOT if self.wide else _DOT)
            case "(":
                return self._group()
            case "[":
                return chars(_writable(self._class()))
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise InvalidPattern(f"nothing to repeat at character {self.at - 1}")
        return self._char(ord(char))

    def _char(self, code: int) -> Regular:
        if self.ignore_case and len(both := {chr(code).lower(), chr(code).upper()}) == 2:
            return chars([(ord(c), ord(c)) for c in both if len(c) == 1])
        return chars(_writable(((code, code),))) if 0xD800 <= code <= 0xDFFF else text(chr(code))

    def _group(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_GROUPS:
            raise NotRegular(f"groups nested more than {MAX_GROUPS} deep")
        look: tuple[bool, bool] | None = None
        if self._peek() == "?":
            kind = self._peek(3) if self._peek(2) == "?<" and self._peek(3) in ("?<=", "?<!") else self._peek(2)
            looks = {"?=": (True, False), "?!": (True, True), "?<=": (False, False), "?<!": (False, True)}
            if kind in looks:
                look = looks[kind]
                self.at += len(kind)
            elif kind == "?:":
                self.at += 2
            elif kind in ("?<", "?P"):
                end = self.pattern.find(">", self.at)
                if end < 0 or self._peek(3) in ("?P=", "?P>"):
                    raise InvalidPattern(f"a group that is not known at character {self.at}")
                self.at = end + 1
            else:
                raise InvalidPattern(f"a group that is not known at character {self.at}")
        wide = self.wide
        if look is not None and look[1] and wide is not None:
            self.wide = not wide
        body = self._alternation()
        self.wide = wide
        if self._peek() != ")":
            raise InvalidPattern("a group is not closed")
        self.at += 1
        self.depth -= 1
        return body if look is None else Look(*look, body)

    def _escape(self) -> Tree:
        char = self._peek()
        if char in ("b", "B") and char:
            self.at += 1
            return Edge("word" if char == "b" else "no word")
        if char in ("A", "Z", "z") and char:  # not ECMA, yet Python and Rust users mean anchors
            self.at += 1
            return START if char == "A" else END
        if char in tuple("123456789") or (char == "k" and self._peek(2) == "k<"):
            raise NotRegular("a back-reference")
        found = self._escaped_class()
        if found is not None:
            return chars(_writable(found))
        return self._char(self._escaped_char())

    def _escaped_class(self) -> Ranges | None:
        char = self._peek()
        if char and char in "dDwWsS":
            self.at += 1
            found = _CLASSES[char.lower()]
            if self.disputed:
                more = self.wide if char.islower() else not self.wide
                beyond = _BEYOND[char.lower()]
                found = chars((*found, *beyond)).args if more else ranges_minus(found, beyond)
            return found if char.islower() else ranges_minus(_EVERY, found)
        if char and char in "pP" and self._peek(2)[1:] == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise InvalidPattern("a property is not closed")
            name = self.pattern[self.at + 2 : end]
            self.at = end + 1
            found = _category(name)
            return found if char == "p" else ranges_minus(_EVERY, found)
        return None

    def _escaped_char(self) -> int:
        char = self._take()
        if char in _CONTROLS:
            return _CONTROLS[char]
        match char:
            case "0":
                return 0
            case "x":
                return self._hex(2, char)
            case "u" if self._peek() == "{":
                end = self.pattern.find("}", self.at)
                digits = self.pattern[self.at + 1 : end]
                self.at = end + 1
                return _code_point(digits)
            case "u":
                high = self._hex(4, char)
                if 0xD800 <= high < 0xDC00 and self._peek(2) == "\\u":
                    mark = self.at
                    self.at += 2
                    low = self._hex(4, char)
                    if 0xDC00 <= low < 0xE000:
                        return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
                    self.at = mark
                return high
            case "c" if self._peek().isascii() and self._peek().isalpha():
                return ord(self._take()) % 32
        return ord(char)

    def _hex(self, size: int, fallback: str) -> int:
        digits = self._peek(size)
        if len(digits) < size or any(c not in "0123456789abcdefABCDEF" for c in digits):
            return ord(fallback)  # annex B: \x without digits is an x
        self.at += size
        return int(digits, 16)

    def _class(self) -> Ranges:
        negated = self._peek() == "^"
        self.at += negated
        found: list[tuple[int, int]] = []
        wide = self.wide
        if negated and wide is not None:
            self.wide = not wide
        while self._peek() != "]":
            low = self._class_atom()
            if self._peek() == "-" and self._peek(2) not in ("-]", "-"):
                mark = self.at
                self.at += 1
                high = self._class_atom()
                if isinstance(low, int) and isinstance(high, int):
                    if high < low:
                        raise InvalidPattern(f"a range out of order at character {mark}")
                    found.append((low, high))
                    continue
                found.append((0x2D, 0x2D))  # annex B: [\w-x] holds a minus
                found.extend([(high, high)] if isinstance(high, int) else high)
            found.extend([(low, low)] if isinstance(low, int) else low)
        self.at += 1
        self.wide = wide
        if self.ignore_case:
            found = _both_cases(found)
        every = chars(found).args if found else ()
        return ranges_minus(_EVERY, every) if negated else every

    def _class_atom(self) -> int | Ranges:
        char = self._take()
        if char != "\\":
            return ord(char)
        if self._peek() == "b":
            self.at += 1
            return 8
        found = self._escaped_class()
        return found if found is not None else self._escaped_char()


def _writable(ranges: Ranges) -> Ranges:
    """The class without surrogates, where it tells some of them apart or has nothing around them."""
    ((first, last),) = _SURROGATES
    cuts = any(first <= low <= last or first <= high <= last for low, high in ranges)
    return ranges_minus(ranges, _SURROGATES) if cuts else ranges


def _both_cases(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out = list(ranges)
    for low, high in ranges:
        for a, b, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            if low <= b and high >= a:
                out.append((max(low, a) + shift, min(high, b) + shift))
    return out


def _code_point(digits: str) -> int:
    try:
        code = int(digits, 16)
    except ValueError:
        raise InvalidPattern(f"\\u{{{digits}}} is not a code point") from None
    if code > MAX_CODE_POINT:
        raise InvalidPattern(f"\\u{{{digits}}} is not a code point")
    return code


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
def _category(name: str) -> Ranges:
    """The code points of a general category (Unicode of this Python's ``unicodedata``)."""
    key, _, value = name.partition("=")
    wanted = value if key in ("General_Category", "gc") and value else name
    if wanted == "Any":
        return _EVERY
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
