"""The spelling of JSON text: separators, white space, escapes, order of keys.  A grammar has one spelling."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.tree.nodes import EMPTY, Lexeme, Node, Pattern, opt

__all__ = ["DEFAULT_SPELLING", "Spelling"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """Separators and white space of JSON text.

    The default writes ``", "`` and ``": "`` and no other white space, as ``json.dumps`` and the chat templates of
    nearly all models do.  ``max_whitespace`` > 0 allows up to that many blanks or line breaks at each place instead
    (then the separators are ``,`` and ``:``); unbounded white space would let a model write it without end.
    ``any_order`` allows the keys of each object in any order instead of the schema's.
    """

    item_separator: str = ", "
    key_separator: str = ": "
    max_whitespace: int = 0
    any_order: bool = False

    @property
    def separators(self) -> tuple[str, str]:
        """The ``separators`` of ``json.dumps`` for this spelling; one of several where white space is optional."""
        return self.item_separator, self.key_separator

    @property
    def item_text(self) -> str:
        """The separator of members and items, without optional white space."""
        return "," if self.max_whitespace else self.item_separator

    @property
    def key_text(self) -> str:
        """The separator of a key and its value, without optional white space."""
        return ":" if self.max_whitespace else self.key_separator

    def space(self) -> Node:
        """The optional white space between two JSON tokens, as grammar."""
        if not self.max_whitespace:
            return EMPTY
        return opt(Lexeme("space", Pattern(f"[ \\n]{{1,{self.max_whitespace}}}")))


DEFAULT_SPELLING = Spelling()
