"""Parse ECMA-262 patterns into a tree of regular terms and assertions.

Deviations from ECMA-262, all towards what the validators do: code points as with the ``u`` flag but the lax escapes of
annex B (``\\-``); ``\\A`` and ``\\Z`` as anchors; the flags ``i`` and ``s`` up to the end of their group.  Lone
surrogates, which no text contains, are cut out of classes that begin or end with one; a class or a character that is
nothing else becomes empty.
"""

from __future__ import annotations

from grammars.regular.syntax.character_classes import (
    CLASSES,
    EVERY,
    category,
    writable,
)
from grammars.regular.syntax.ecma_tree import (
    END,
    START,
    Boundary,
    InvalidPattern,
    NotRegular,
    Tree,
    tree_alt,
    tree_cat,
)
from grammars.regular.syntax.parser import MAX_PATTERN, PatternParser, both_sides
from grammars.regular.terms import MAX_CODE_POINT, Ranges, chars, ranges_minus, text

__all__ = ["EcmaParser"]

_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


_MAX_BRACES_LENGTH = 400  # characters: counts have at most 9 digits, names of properties some tens
_LAST_LINE = tree_alt([END, tree_cat([text("\n"), END])])
#: Groups that some validator understands, with their names.
_FOREIGN_KINDS = {"?>": "an atomic group", "?P=": "a back-reference", "?#": "a comment", "?(": "a condition"}


class EcmaParser(PatternParser):
    """A parser of one pattern.

    ``negated``: what matches is forbidden, so ``$`` also matches before a newline at the end, as in Python;
    negated look-around turns it around.
    """

    deepest = 60
    refused = _FOREIGN_KINDS

    def __init__(self, pattern: str, *, negated: bool = False) -> None:
        super().__init__(pattern)
        self.negated = negated
        self.names: set[str] = set()

    def parse(self) -> Tree:
        """Return the tree; raises `InvalidPattern`, or `NotRegular` for what is not a regular language."""
        if len(self.text) > MAX_PATTERN:
            raise NotRegular(f"a pattern of more than {MAX_PATTERN} characters")
        return super().parse()

    def invalid(self, message: str, at: int) -> Exception:
        return InvalidPattern(f"{message}, column {at + 1}")

    def unsupported(self, what: str, at: int) -> Exception:
        return NotRegular(f"{what}, column {at + 1}")

    def too_deep(self, at: int) -> Exception:
        return NotRegular(f"groups nested more than {self.deepest} deep")

    def name(self, name: str) -> None:
        if name in self.names:
            raise InvalidPattern(f"two groups are named {name!r}")
        self.names.add(name)

    def set_flags(self, on: str, off: str, at: int) -> None:
        if foreign := set(on + off) - {"i", "s"}:
            raise NotRegular(f"the flag {min(foreign)!r}")
        self.flags = self.flags.union(on) - set(off)

    def inside(self, look: tuple[bool, bool] | None) -> Tree:
        before = self.negated
        self.negated ^= look is not None and look[1]
        body = self.alternation()
        self.negated = before
        return body

    def item(self, parts: list[Tree]) -> None:
        start = self.at
        super().item(parts)
        repeated = self.text[start : start + 2] in ("\\b", "\\B", "\\A", "\\Z", "\\z") and self.at > start + 2
        if repeated:
            raise self.invalid("nothing to repeat", start)

    def braces(self) -> tuple[int, int | None] | None:
        """``{m}``, ``{m,}``, ``{m,n}``; anything else is literal text (annex B)."""
        end = self.text.find("}", self.at, self.at + _MAX_BRACES_LENGTH)
        inner = self.text[self.at + 1 : end] if end > 0 else ""
        begun = self.text[self.at + 1 : self.at + _MAX_BRACES_LENGTH]
        if end < 0 and len(begun) == _MAX_BRACES_LENGTH - 1 and begun.replace(",", "", 1).isdigit():
            raise NotRegular("a repeat with a count of too many digits")
        low, comma, high = inner.partition(",")
        if comma and not low and (not high or (high.isascii() and high.isdigit())):
            raise NotRegular(f"{{{inner}}}, which is text in ECMA-262 and a repeat to Python's validators")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None
        if len(low) > 9 or len(high) > 9:
            raise NotRegular(f"a repeat of {inner}")
        self.at = end + 1
        least, most = int(low), int(high) if high else None if comma else int(low)
        if most is not None and most < least:
            raise InvalidPattern(f"repeat from {least} to {most}")
        return least, most

    def anchor(self, char: str, begin: int) -> Tree:
        return START if char == "^" else _LAST_LINE if self.negated else END

    def escape(self, begin: int) -> Tree:
        char = self.peek()
        if char in ("b", "B") and char:
            self.at += 1
            return Boundary("word" if char == "b" else "no word")
        if char in ("A", "Z", "z") and char:  # not ECMA, yet Python and Rust users mean anchors
            self.at += 1
            return START if char == "A" else END
        if char in tuple("123456789") or (char == "k" and self.peek(2) == "k<"):
            raise self.unsupported("a back-reference", begin)
        char_class = self.escaped_class()
        if char_class is not None:
            return chars(writable(char_class))
        return self.char(self.escaped_char(begin))

    def named(self, letter: str, *, negated: bool) -> Ranges:
        return self.cased(CLASSES[letter])

    def property(self) -> Ranges | None:
        if self.peek(2)[1:] != "{":
            return None
        end = self.text.find("}", self.at)
        if end < 0:
            raise InvalidPattern("a property is not closed")
        is_negated, name = self.peek() == "P", self.text[self.at + 2 : end]
        self.at = end + 1
        members = self.cased(category(name))
        return ranges_minus(EVERY, members) if is_negated else members

    def escaped_char(self, begin: int) -> int:
        char = self.take()
        if char in _CONTROLS:
            return _CONTROLS[char]
        match char:
            case "0":
                return 0
            case "x":
                return self._hex(2, char)
            case "u" if self.peek() == "{":
                end = self.text.find("}", self.at)
                if end < 0:
                    raise self.invalid("the code point is not closed", self.at)
                digits = self.text[self.at + 1 : end]
                self.at = end + 1
                return _code_point(digits)
            case "u":
                high = self._hex(4, char)
                if 0xD800 <= high < 0xDC00 and self.peek(2) == "\\u":
                    mark = self.at
                    self.at += 2
                    low = self._hex(4, char)
                    if 0xDC00 <= low < 0xE000:
                        return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
                    self.at = mark
                return high
            case "c" if self.peek().isascii() and self.peek().isalpha():
                return ord(self.take()) % 32
        return ord(char)

    def _hex(self, size: int, fallback: str) -> int:
        digits = self.peek(size)
        if len(digits) < size or any(c not in "0123456789abcdefABCDEF" for c in digits):
            return ord(fallback)  # annex B: \x without digits is an x
        self.at += size
        return int(digits, 16)

    def char_class(self) -> Ranges:
        first = self.at + (self.peek() == "^")
        if self.text[first : first + 1] == "]" and self.text.find("]", first + 1) >= 0:
            raise NotRegular("a class that begins with ], which ends it in ECMA-262 and not for validators")
        return super().char_class()

    def class_char(self) -> int | Ranges:
        if self.peek(2) == "\\b":
            self.at += 2
            return 8
        return super().class_char()

    def odd_range(self, low: int | Ranges, high: int | Ranges, at: int) -> Ranges:
        if isinstance(low, int) and isinstance(high, int):
            raise self.invalid("a range out of order", at)
        return both_sides(low, high)  # annex B: [\\w-x] holds a minus


def _code_point(digits: str) -> int:
    try:
        code = int(digits, 16)
    except ValueError:
        raise InvalidPattern(f"\\u{{{digits}}} is not a code point") from None
    if code > MAX_CODE_POINT:
        raise InvalidPattern(f"\\u{{{digits}}} is not a code point")
    return code
