"""The parser of patterns that all dialects share; a subclass says what its dialect means by the parts.

Recursive descent over one pattern, to a tree of regular terms and assertions.  A *flag* is a letter; flags hold up to
the end of their group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from grammars.regular.syntax.case_folding import case_folded
from grammars.regular.syntax.character_classes import DOT, EVERY, writable
from grammars.regular.syntax.ecma_tree import LookAround, Tree, tree_alt, tree_cat, tree_rep
from grammars.regular.terms import Ranges, chars, ranges_minus, text

__all__ = ["MAX_COUNT", "MAX_PATTERN", "InvalidRegex", "PatternParser", "both_sides"]

#: The largest number of a counted repeat that the engine reads.
MAX_COUNT = 2**32 - 1
#: Characters of one pattern.
MAX_PATTERN = 100_000

_LOOKS = {"?=": (True, False), "?!": (True, True), "?<=": (False, False), "?<!": (False, True)}
_NAME = re.compile(r"\?P?<([^>]*)>")
_FLAGS = re.compile(r"\?(?=[a-zA-Z:-])([a-zA-Z]*)(-?)([a-zA-Z]*)([:)])")


class InvalidRegex(ValueError):
    """The pattern is not a regular expression; ``at`` is the index of the character at fault."""

    def __init__(self, message: str, at: int) -> None:
        self.at = at
        super().__init__(message)


class PatternParser:
    """Reads one pattern, see `parse`.  Class attributes are the table of a dialect."""

    deepest = 100  #: nested groups; beyond, Python's own stack would overflow
    looks: Mapping[str, tuple[bool, bool]] = _LOOKS  #: kinds of look-around, as (ahead, negative)
    refused: Mapping[str, str] = {}  #: kinds of groups that no regular language can say, with their names
    repeats = "*+?"  #: what begins a repeat, and nothing else
    stacks = False  #: whether a repeat may be repeated without a group
    not_ends = frozenset(("]", ""))  #: after a minus in a class these begin no end of a range

    def __init__(self, pattern: str, flags: frozenset[str] = frozenset()) -> None:
        self.text = pattern
        self.at = 0
        self.depth = 0
        self.flags = flags

    def parse(self) -> Tree:
        """Return the tree of the whole pattern; raises the errors of the dialect."""
        tree = self.alternation()
        if self.at < len(self.text):
            raise self.invalid("unopened group", self.at)
        return tree

    # -- what a dialect says

    def invalid(self, message: str, at: int) -> Exception:
        """Return the error for what is not a pattern."""
        return InvalidRegex(message, at)

    def unsupported(self, what: str, at: int) -> Exception:
        """Return the error for what is not expressible here."""
        return InvalidRegex(f"{what} is not supported", at)

    def anchor(self, char: str, begin: int) -> Tree:
        """Return what ``^`` or ``$`` asserts."""
        raise NotImplementedError

    def escape(self, begin: int) -> Tree:
        """Read what follows a backslash outside classes."""
        raise NotImplementedError

    def cased(self, ranges: Ranges) -> Ranges:
        """Return the characters, with those of other case where case is ignored."""
        return case_folded(ranges) if "i" in self.flags else ranges

    def braces(self) -> tuple[int, int | None] | None:
        """Read the bounds of a repeat in braces; None where they are text."""
        raise NotImplementedError

    def set_flags(self, on: str, off: str, at: int) -> None:
        raise NotImplementedError

    def named(self, letter: str, *, negated: bool) -> Ranges:
        r"""Return the characters of ``\d``, ``\s`` or ``\w``, of which ``negated`` takes the others."""
        raise NotImplementedError

    def property(self) -> Ranges | None:
        r"""Read what follows the backslash of ``\p{...}`` or ``\P{...}``; None where it is not such a class."""
        return None

    def escaped_char(self, begin: int) -> int:
        """Read what follows a backslash and stands for one character."""
        raise NotImplementedError

    def skip(self) -> bool:
        """Skip what means nothing, and say whether there was any."""
        return False

    def name(self, name: str) -> None:
        """Note the name of a group."""

    def inside(self, look: tuple[bool, bool] | None) -> Tree:
        """Read the body of a group, a look-around's where ``look`` says which."""
        return self.alternation()

    def odd_range(self, low: int | Ranges, high: int | Ranges, at: int) -> Ranges:
        """Return what a minus between two items of a class means that are not ends of a range."""
        raise self.invalid("a range in the wrong order", at)

    # -- structure

    def peek(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def take(self, size: int = 1) -> str:
        taken = self.text[self.at : self.at + size]
        if len(taken) < size:
            raise self.invalid("the pattern ends too early", len(self.text))
        self.at += size
        return taken

    def alternation(self) -> Tree:
        options = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            options.append(self.sequence())
        return tree_alt(options)

    def sequence(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.text) and self.peek() not in "|)":
            if not self.skip():
                self.item(parts)
        return tree_cat(parts)

    def item(self, parts: list[Tree]) -> None:
        """Read one atom with its repeats."""
        tree = self.atom()
        if tree is not None:
            parts.append(self.quantified(tree))

    def atom(self) -> Tree | None:
        """Read one character, class, group or assertion; None for flags."""
        begin = self.at
        char = self.take()
        match char:
            case "(":
                return self.group()
            case "[":
                return chars(writable(self.char_class()))
            case ".":
                return chars(EVERY if "s" in self.flags else DOT)
            case "^" | "$":
                return self.anchor(char, begin)
            case "\\":
                return self.escape(begin)
        if char in self.repeats:
            raise self.invalid("nothing to repeat", begin)
        return self.char(ord(char))

    def char(self, code: int) -> Tree:
        members = writable(self.cased(((code, code),)))
        return text(chr(code)) if members == ((code, code),) else chars(members)

    def quantified(self, body: Tree) -> Tree:
        while True:
            self.skip()
            begin = self.at
            char = self.peek()
            if char in ("*", "+", "?"):
                self.at += 1
                bounds: tuple[int, int | None] | None = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            else:
                bounds = self.braces() if char == "{" else None
            if bounds is None:
                return body
            body = tree_rep(body, *bounds)
            if self.peek() == "?":  # lazy: the same language
                self.at += 1
            elif self.peek() == "+" and not self.stacks:
                raise self.unsupported("a possessive repeat", begin)
            if not self.stacks:
                return body

    def group(self) -> Tree | None:
        """Read what follows an opening parenthesis; None for flags of the rest of the group around it."""
        begin, before = self.at - 1, self.flags
        if self.depth >= self.deepest:
            raise self.too_deep(begin)
        opening = self.opening(begin) if self.peek() == "?" else ""
        if opening == ")":
            return None
        self.depth += 1
        look = self.looks.get(opening)
        body = self.inside(look)
        self.flags = before
        if self.peek() != ")":
            raise self.invalid("a group does not end", begin)
        self.at += 1
        self.depth -= 1
        return body if look is None else LookAround(*look, body)

    def too_deep(self, at: int) -> Exception:
        return self.invalid(f"groups are nested more than {self.deepest} deep", at)

    def opening(self, begin: int) -> str:
        """Read what comes between the parenthesis of a group and its body; ")" if there is no body."""
        for kind, what in self.refused.items():
            if self.text.startswith(kind, self.at):
                raise self.unsupported(what, begin)
        for kind in self.looks:
            if self.text.startswith(kind, self.at):
                self.at += len(kind)
                return kind
        flags = _FLAGS.match(self.text, self.at)
        if flags is not None and flags[0] not in ("?-)", "?-:"):
            self.at = flags.end()
            self.set_flags(flags[1], flags[3], begin)
            return flags[4]
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise self.invalid("an unknown kind of group", begin)
        self.at = name.end()
        self.name(name[1])
        return name[0]

    # -- classes

    def escaped_class(self) -> Ranges | None:
        r"""Read the name of a class after a backslash; None where there is none."""
        char = self.peek()
        if char not in ("d", "D", "w", "W", "s", "S"):
            return self.property() if char in ("p", "P") else None
        self.at += 1
        members = self.named(char.lower(), negated=char.isupper())
        return ranges_minus(EVERY, members) if char.isupper() else members

    def char_class(self) -> Ranges:
        """Read a class after its opening bracket."""
        negated = self.peek() == "^"
        self.at += negated
        members = self.cased(self.class_members())
        self.at += 1
        return ranges_minus(EVERY, members) if negated else members

    def class_members(self) -> Ranges:
        """Read the members of a class up to its closing bracket, which stays."""
        begin, members = self.at, list[tuple[int, int]]()
        while self.peek() != "]" or not self.is_class_end(begin):
            members += self.class_item()
        return chars(members).args if members else ()

    def is_class_end(self, begin: int) -> bool:
        """Whether a closing bracket ends the class whose members begin at ``begin``."""
        return True

    def class_item(self) -> Ranges:
        low = self.class_char()
        if self.peek() != "-" or self.peek(2)[1:] in self.not_ends:
            return ((low, low),) if isinstance(low, int) else low
        mark = self.at
        self.at += 1
        high = self.class_char()
        if isinstance(low, int) and isinstance(high, int) and low <= high:
            return ((low, high),)
        return self.odd_range(low, high, mark)

    def class_char(self) -> int | Ranges:
        begin = self.at
        char = self.take()
        if char != "\\":
            return ord(char)
        members = self.escaped_class()
        return members if members is not None else self.escaped_char(begin)


def both_sides(low: int | Ranges, high: int | Ranges) -> Ranges:
    """Return the characters on both sides of a minus, and the minus."""
    sides = (((side, side),) if isinstance(side, int) else side for side in (low, high))
    return (0x2D, 0x2D), *(bounds for side in sides for bounds in side)
