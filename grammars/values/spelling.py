"""How JSON is spelled: separators, white space, escapes.  One spelling holds for a whole grammar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grammars.tree.nodes import EMPTY, Lexeme, Node, Pattern, opt

__all__ = ["DEFAULT_SPELLING", "Spelling"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """The white space of JSON text.

    The default writes ``", "`` and ``": "`` and nothing else, which is how ``json.dumps`` and the chat templates
    of nearly all models spell JSON; no run of white space can be endless.  ``max_whitespace`` > 0 allows that
    many blanks or line breaks at each place instead (then the separators are ``,`` and ``:``).
    """

    item_separator: str = ", "
    key_separator: str = ": "
    max_whitespace: int = 0

    @property
    def separators(self) -> tuple[str, str]:
        """What ``json.dumps`` takes to write like this; one of several ways where white space may be chosen."""
        return self.item_separator, self.key_separator

    @property
    def item_text(self) -> str:
        """What stands between members, without the white space that may be chosen."""
        return "," if self.max_whitespace else self.item_separator

    @property
    def key_text(self) -> str:
        """What stands between a key and its value, without the white space that may be chosen."""
        return ":" if self.max_whitespace else self.key_separator

    def space(self) -> Node:
        """White space that may be written between two JSON tokens."""
        if not self.max_whitespace:
            return EMPTY
        return opt(Lexeme("space", Pattern(f"[ \\n]{{1,{self.max_whitespace}}}")))

    def engine_options(self) -> Mapping[str, Any]:
        """The engine's ``x-guidance`` object; its separators are regular expressions.

        Escapes: no ``\\u``, in strings and keys alike.  With it the engine lets a key be written in a second way,
        ``{"\\u0061": 1}``, past the schema of ``a``.  The price is that control characters without a short escape
        cannot be written.
        """
        escapes = 'nrbtf\\"'
        if self.max_whitespace:
            pattern = f"[ \\n]{{1,{self.max_whitespace}}}"
            return {"whitespace_flexible": True, "whitespace_pattern": pattern, "json_allowed_escapes": escapes}
        return {
            "whitespace_flexible": False,
            "item_separator": self.item_separator,
            "key_separator": self.key_separator,
            "json_allowed_escapes": escapes,
        }


DEFAULT_SPELLING = Spelling()
