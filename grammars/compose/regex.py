"""A client's regular expression, in the dialect of Python's ``re``, as a grammar node."""

from __future__ import annotations

from typing import Any

from grammars.regular.languages import shortest
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.python import language
from grammars.regular.syntax.raw_text import raw_node
from grammars.regular.syntax.write import written
from grammars.text_grammars.lark.check import check_length
from grammars.tree.nodes import Node, Pattern
from special_tokens.errors import GrammarError

__all__ = ["regex_node"]


def regex_node(pattern: Any, place: str, *, unicode: bool) -> tuple[Node, str]:
    r"""Return the node of the texts that the whole pattern matches, and the pattern that the plan shows.

    ``\d``, ``\w``, ``\s``, ``\b`` and what ``(?i)k`` matches are ASCII unless ``unicode``.  The plan shows a pattern
    that the engine reads as ``re`` does, or, with look-around, the pattern itself.  Raises `GrammarError` with the
    column for a text that is not a regular expression or matches nothing.
    """
    if not isinstance(pattern, str):
        raise GrammarError(f"{type(pattern).__name__} is not a pattern", place=place, expected="a regular expression")
    if not pattern:
        raise GrammarError("the pattern is empty", place=place, expected="a regular expression")
    try:
        term = language(pattern, plain_classes=not unicode)
    except InvalidRegex as error:
        expected = "a regular expression of Python's re"
        raise GrammarError(str(error), line=1, column=error.at + 1, place=place, expected=expected) from None
    if shortest(term) is None:
        hint = "anchors and look-around see only the text that the pattern itself matches"
        raise GrammarError("no text matches this pattern", place=place, hint=hint)
    if not term.plain:
        return raw_node(term), pattern
    check_length(term, "the pattern", place=place)
    shown = written(term, named=unicode)
    return Pattern(shown), shown
