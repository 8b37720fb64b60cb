"""Parse ECMA-262 patterns into a tree of regular terms and assertions.

Deviations from ECMA-262, all towards what the validators do: code points as with the ``u`` flag but the lax escapes of
annex B (``\\-``); ``\\A`` and ``\\Z`` as anchors; the flags ``i`` and ``s`` up to the end of their group.  Lone
surrogates, which no text contains, are cut out of classes that begin or end with one; a class or a character that is
nothing else becomes empty.
"""

from __future__ import annotations

import re
from functools import lru_cache

from grammars.regular.languages import EPS, MAX_CODE_POINT, Ranges, Regular, chars, ranges_minus, text
from grammars.regular.syntax.case_folding import case_folded
from grammars.regular.syntax.character_classes import (
    CLASSES,
    DISPUTED_CHARACTERS,
    DOT,
    EVERY,
    WIDE_DOT,
    category,
    has_disputed_classes,
    writable,
)
from grammars.regular.syntax.ecma_tree import (
    END,
    START,
    Boundary,
    InvalidPattern,
    LookAround,
    NotRegular,
    Tree,
    tree_alt,
    tree_cat,
    tree_rep,
)

__all__ = ["EcmaParser", "has_disputed_case"]
MAX_GROUPS = 60  #: nested groups; deeper patterns are refused before Python's own stack overflows

_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


@lru_cache(maxsize=4_096)
def has_disputed_case(pattern: str) -> bool:
    """Whether a pattern ignores the case of letters that readers fold differently.

    Raises what `EcmaParser.parse` raises.
    """
    if "(?" not in pattern:
        return False
    parser = EcmaParser(pattern, wide=False)
    parser.parse()
    return parser.has_disputed_case


_LONGEST_BRACES = 400  # characters: counts have 9 digits at the most, names of properties some tens
_MOST_CHARACTERS = 100_000  # of a pattern that is read at all
_LAST_LINE = tree_alt([END, tree_cat([text("\n"), END])])
_LOOK_KINDS = {"?=": (True, False), "?!": (True, True), "?<=": (False, False), "?<!": (False, True)}
_NAME = re.compile(r"\?P?<([^>]*)>")
_FLAGS = re.compile(r"\?[a-zA-Z]*(?:-[a-zA-Z]*)?[:)]")
#: Groups that some validator understands, with their names.
_FOREIGN_KINDS = {"?>": "an atomic group", "?P=": "a back-reference", "?#": "a comment", "?(": "a condition"}


class EcmaParser:
    """A recursive-descent parser of one pattern.

    ``wide`` selects how constructs are read on which validators differ from ECMA-262: None as ECMA-262; True as the
    union of all readings; False as the intersection.  Negated parts use the opposite.  Such constructs are ``.`` (line
    separators other than the newline), the classes of `has_disputed_classes`, case folding, and unless
    ``final_newline`` is False ``$``, which Python also finds before a newline at the end.
    """

    def __init__(self, pattern: str, *, wide: bool | None = None, final_newline: bool = True) -> None:
        self.pattern = pattern
        self.wide = wide
        self.final_newline = final_newline
        self.at = 0
        self.depth = 0
        self.ignore_case = False
        self.dot_is_all = False
        self.has_disputed_case = False  #: whether readers fold some letter differently; set by `parse`
        self.names: set[str] = set()
        self.disputed = wide is not None and has_disputed_classes(pattern)

    def parse(self) -> Tree:
        """Return the tree; raises `InvalidPattern`, or `NotRegular` for what is not a regular language."""
        if len(self.pattern) > _MOST_CHARACTERS:
            raise NotRegular(f"a pattern of more than {_MOST_CHARACTERS} characters")
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
        while self._peek() not in ("", "|", ")"):
            start = self.at
            atom = self._atom()
            low, high = self._quantifier()
            if isinstance(atom, Boundary) and (low, high) != (1, 1) and self.pattern[start] not in "^$(":
                raise InvalidPattern(f"nothing to repeat at character {start}")
            if high is not None and high < low:
                raise InvalidPattern(f"repeat from {low} to {high}")
            parts.append(tree_rep(atom, low, high))
        return tree_cat(parts)

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
        elif self._peek() == "+":
            raise NotRegular(f"a possessive repeat, column {self.at}")
        elif self._peek() == "*":
            raise InvalidPattern(f"nothing to repeat at character {self.at}")
        return bounds

    def _braces(self) -> tuple[int, int | None] | None:
        """``{m}``, ``{m,}``, ``{m,n}``; anything else is literal text (annex B)."""
        end = self.pattern.find("}", self.at, self.at + _LONGEST_BRACES)
        inner = self.pattern[self.at + 1 : end] if end > 0 else ""
        begun = self.pattern[self.at + 1 : self.at + _LONGEST_BRACES]
        if end < 0 and len(begun) == _LONGEST_BRACES - 1 and begun.replace(",", "", 1).isdigit():
            raise NotRegular("a repeat with a count of too many digits")
        low, comma, high = inner.partition(",")
        if comma and not low and (not high or (high.isascii() and high.isdigit())):
            raise NotRegular(f"{{{inner}}}, which is text in ECMA-262 and a repeat to Python's validators")
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
                return _LAST_LINE if self.wide and self.final_newline else END
            case ".":
                return chars(EVERY if self.dot_is_all else WIDE_DOT if self.wide else DOT)
            case "(":
                return self._group()
            case "[":
                return chars(writable(self._class()))
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise InvalidPattern(f"nothing to repeat at character {self.at - 1}")
        return self._char(ord(char))

    def _char(self, code: int) -> Regular:
        if self.ignore_case:
            both = self._folded(((code, code),))
            if both != ((code, code),):
                return chars(writable(both))
        return chars(writable(((code, code),))) if 0xD800 <= code <= 0xDFFF else text(chr(code))

    def _folded(self, ranges: Ranges) -> Ranges:
        """The class, with the letters of other case where case is ignored."""
        if not self.ignore_case:
            return ranges
        narrow, wide = (case_folded(ranges, wide=how) for how in (False, True))
        self.has_disputed_case = self.has_disputed_case or narrow != wide
        return wide if self.wide else narrow

    def _of_class(self, ranges: Ranges, *, negated: bool) -> Ranges:
        """The characters of a named class; those of a negated one are read with the opposite of ``wide``."""
        before = self.wide
        self.wide = before if before is None or not negated else not before
        found = self._folded(ranges)
        self.wide = before
        return found

    def _group(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_GROUPS:
            raise NotRegular(f"groups nested more than {MAX_GROUPS} deep")
        flags = self.ignore_case, self.dot_is_all
        look: tuple[bool, bool] | None = None
        if self._peek() == "?":
            found = self._opened()
            if found is None:  # flags for the rest of the group around it
                self.depth -= 1
                return EPS
            look = _LOOK_KINDS.get(found)
        wide = self.wide
        if look is not None and look[1] and wide is not None:
            self.wide = not wide
        body = self._alternation()
        self.wide = wide
        self.ignore_case, self.dot_is_all = flags
        if self._peek() != ")":
            raise InvalidPattern("a group is not closed")
        self.at += 1
        self.depth -= 1
        return body if look is None else LookAround(*look, body)

    def _opened(self) -> str | None:
        """Read what comes between the parenthesis of a group and its body; None if there is no body."""
        flags = _FLAGS.match(self.pattern, self.at)
        if flags is not None and flags.group() not in ("?)", "?-)", "?-:"):
            on, _, off = flags.group()[1:-1].partition("-")
            if foreign := set(on + off) - {"i", "s"}:
                raise NotRegular(f"the flag {min(foreign)!r}")
            self.ignore_case = (self.ignore_case or "i" in on) and "i" not in off
            self.dot_is_all = (self.dot_is_all or "s" in on) and "s" not in off
            self.at = flags.end()
            return None if flags.group()[-1] == ")" else "?:"
        for kind, reason in _FOREIGN_KINDS.items():
            if self.pattern.startswith(kind, self.at):
                raise NotRegular(f"{reason}, column {self.at}")
        for kind in _LOOK_KINDS:
            if self.pattern.startswith(kind, self.at):
                self.at += len(kind)
                return kind
        named = _NAME.match(self.pattern, self.at)
        if named is None:
            raise InvalidPattern(f"a group that is not known at character {self.at}")
        if named.group(1) in self.names:
            raise InvalidPattern(f"two groups are named {named.group(1)!r}")
        self.names.add(named.group(1))
        self.at = named.end()
        return named.group()

    def _escape(self) -> Tree:
        char = self._peek()
        if char in ("b", "B") and char:
            self.at += 1
            return Boundary("word" if char == "b" else "no word")
        if char in ("A", "Z", "z") and char:  # not ECMA, yet Python and Rust users mean anchors
            self.at += 1
            return START if char == "A" else END
        if char in tuple("123456789") or (char == "k" and self._peek(2) == "k<"):
            raise NotRegular(f"a back-reference, column {self.at}")
        found = self._escaped_class()
        if found is not None:
            return chars(writable(found))
        return self._char(self._escaped_char())

    def _escaped_class(self) -> Ranges | None:
        char = self._peek()
        if char and char in "dDwWsS":
            self.at += 1
            found = self._of_class(CLASSES[char.lower()], negated=char.isupper())
            if self.disputed:
                more = self.wide if char.islower() else not self.wide
                beyond = DISPUTED_CHARACTERS[char.lower()]
                found = chars((*found, *beyond)).args if more else ranges_minus(found, beyond)
            return found if char.islower() else ranges_minus(EVERY, found)
        if char and char in "pP" and self._peek(2)[1:] == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise InvalidPattern("a property is not closed")
            name = self.pattern[self.at + 2 : end]
            self.at = end + 1
            found = self._of_class(category(name), negated=char == "P")
            return found if char == "p" else ranges_minus(EVERY, found)
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
                if end < 0:
                    raise InvalidPattern(f"the code point at character {self.at} is not closed")
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
        if self._peek() == "]" and self.pattern.find("]", self.at + 1) >= 0:
            raise NotRegular("a class that begins with ], which ends it in ECMA-262 and not for validators")
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
        every = self._folded(chars(found).args) if found else ()
        self.wide = wide
        return ranges_minus(EVERY, every) if negated else every

    def _class_atom(self) -> int | Ranges:
        char = self._take()
        if char != "\\":
            return ord(char)
        if self._peek() == "b":
            self.at += 1
            return 8
        found = self._escaped_class()
        return found if found is not None else self._escaped_char()


def _code_point(digits: str) -> int:
    try:
        code = int(digits, 16)
    except ValueError:
        raise InvalidPattern(f"\\u{{{digits}}} is not a code point") from None
    if code > MAX_CODE_POINT:
        raise InvalidPattern(f"\\u{{{digits}}} is not a code point")
    return code
