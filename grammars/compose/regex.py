"""A client's regular expression as a grammar node: ASCII classes, look-around, errors with their column."""

from __future__ import annotations

import re
from typing import Any

from grammars.regular.languages import Regular, shortest
from grammars.regular.raw_text import raw_node
from grammars.regular.syntax import ecma
from grammars.regular.syntax.rust import InvalidRegex, NotTranslated, language
from grammars.text_grammars.lark.sizes import check_pattern
from grammars.tree.nodes import And, Node, Pattern
from special_tokens.errors import GrammarError

__all__ = ["regex_node"]

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t-\\r\\x20"}
_PIECE = re.compile(r"\\.|\[\^?\]?|.", re.DOTALL)
_LOOKS = re.compile(r"\(\?<?[=!]|\\[bB]")
_NAMED = re.compile(r"\(\?P<")
_ANCHORS = re.compile(r"[\^$]|\\[Az]")
_LINES = re.compile(r"\(\?[a-zA-Z]*m")
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z]*i")
#: The two characters beyond ASCII that fold to letters of ASCII (the long s, the Kelvin sign), as patterns spell them.
_FOLDED = re.compile("17[fF]|212[aA]|\u017f|\u212a")
_UNFOLDED = Pattern("[^\\u{17f}\\u{212a}]*")


def regex_node(pattern: Any, place: str, *, unicode: bool) -> tuple[Node, str]:
    r"""Return the node of the texts that the whole pattern matches, and the pattern that the plan shows.

    ``\d``, ``\w``, ``\s`` and what ``(?i)k`` matches are ASCII unless ``unicode``.  Patterns with look-around or word
    boundaries are read as those of JSON schemas are, others as the engine reads them.  Raises `GrammarError` with the
    column for a text that is no regular expression or matches nothing.
    """
    if not isinstance(pattern, str):
        raise GrammarError(f"{type(pattern).__name__} is no pattern", place=place, expected="a regular expression")
    if not pattern:
        raise GrammarError("the pattern is empty", place=place, expected="a regular expression")
    folds = not unicode and _outside_classes(_IGNORES_CASE, pattern) and not _FOLDED.search(pattern)
    if _outside_classes(_LOOKS, pattern):
        term = _looking(pattern, place, unicode=unicode)
        if shortest(term) is None:
            raise GrammarError("no text matches this pattern", place=place)
        return _unfolded(raw_node(term), folds), pattern
    shown = _PIECE.sub(_with_nul, pattern if unicode else ascii_classes(pattern))
    try:
        check_pattern(pattern, place=place)
        language(pattern)
        is_empty = shortest(language(shown)) is None
    except NotTranslated as error:
        if _outside_classes(_ANCHORS, pattern) and ("inside the pattern" in str(error) or _LINES.search(pattern)):
            hint = "^ and $ stand at the beginning and the end of the pattern, which is matched as a whole"
            raise GrammarError(f"not supported: {error}", place=place, hint=hint) from None
        is_empty = False  # the engine decides
    except InvalidRegex as error:
        raise GrammarError(str(error), line=1, column=error.at + 1, place=place) from None
    if is_empty:
        raise GrammarError("no text matches this pattern", place=place)
    return _unfolded(Pattern(shown), folds), shown


def _with_nul(piece: re.Match[str]) -> str:
    r"""``\0`` as the engine reads it, unless another digit follows."""
    following = piece.string[piece.end() : piece.end() + 1]
    return "\\x00" if piece[0] == "\\0" and not following.isdigit() else piece[0]


def ascii_classes(pattern: str) -> str:
    r"""Return the pattern with ``\d``, ``\w``, ``\s`` and their negations written as sets of ASCII characters."""
    out: list[str] = []
    depth = 0
    for piece in _PIECE.findall(pattern):
        letters = _CLASSES.get(piece[1:].lower()) if piece[0] == "\\" else None
        if letters is not None:  # a set within a set is legal in Rust, and no range can begin or end with it
            piece = f"[{'^' if piece[1].isupper() else ''}{letters}]"
        elif piece[0] == "[":
            depth += 1
        elif piece == "]" and depth:
            depth -= 1
        out.append(piece)
    return "".join(out)


def _unfolded(node: Node, folds: bool) -> Node:
    """Return the node without texts that hold one of the two folded characters, if it ``folds`` letters."""
    return And((node, _UNFOLDED)) if folds else node


def _outside_classes(wanted: re.Pattern[str], pattern: str) -> bool:
    """Whether ``wanted`` matches somewhere outside the pattern's character classes."""
    depth = 0
    found = list(_PIECE.finditer(pattern))
    for piece in found:
        if piece[0][0] == "[":
            depth += 1
        elif piece[0] == "]" and depth:
            depth -= 1
        elif not depth and wanted.match(pattern, piece.start()):
            return True
    return False


def _looking(pattern: str, place: str, *, unicode: bool) -> Regular:
    """The language of a pattern with look-around, in the syntax of JSON schemas."""
    if unicode:
        raise GrammarError("look-around is not possible with unicode=True", place=place, expected="one of the two")
    try:
        return ecma.language(f"^(?:{_NAMED.sub('(?<', pattern)})$", final_newline=False)
    except ecma.InvalidPattern as error:
        raise GrammarError(str(error), place=place, expected="a regular expression") from None
    except ecma.NotRegular as error:
        hint = "write the pattern without look-around"
        raise GrammarError(f"{error} is not supported", place=place, hint=hint) from None
