"""Marker text split into tokens and text, for the grammar that writes markers and the parser that reads them.

A marker such as ``\\n</think>\\n\\n`` is text around tokens.  `Markers.pieces` splits it into token ids and plain
text for one tokenizer.  `Markers.marked` returns it as a string in which each token is one lone surrogate
(U+D800...), a character that decoded UTF-8 never contains: so a parser can search for markers in one string, and
text that merely spells a marker is not mistaken for it.
"""

from __future__ import annotations

from functools import cached_property

from grammars.tree.nodes import EMPTY, Node, Pattern, Text, Tokens, alt, repeat, seq, token
from special_tokens import SpecialTokens

__all__ = ["Markers"]

_ANY, _BLANK, _NOT_BLANK = Pattern("(?s:.*)"), Pattern(r"\s*"), Pattern(r"(?s:\s*\S.*)")
_FIRST, _LAST = 0xD800, 0xDFFF


class Markers:
    """The markers of one plan or format under one tokenizer."""

    def __init__(self, tokens: SpecialTokens) -> None:
        self.tokens = tokens
        self._chars: dict[int, str] = {}

    def pieces(self, text: str) -> tuple[int | str, ...]:
        """Return ``text`` split into token ids, where the tokenizer has a token, and plain text elsewhere."""
        return self.tokens.pieces(text)

    def node(self, text: str) -> Node:
        """Return the grammar that writes ``text`` with its tokens."""
        if not text:
            return EMPTY
        return seq(
            *(
                Text(piece) if isinstance(piece, str) else token(piece, self.tokens.text(piece))
                for piece in self.pieces(text)
            )
        )

    def any_text(self, *, not_blank: bool = False) -> Node:
        """Return the grammar of any text, with the tokens that are text (HTML tags of some vocabularies).

        It ends only where another token follows.  ``not_blank`` requires a character other than white space.
        """
        if not not_blank:
            return self.with_tags(_ANY, _ANY)
        written = self.with_tags(_NOT_BLANK, _ANY)
        return alt(written, seq(_BLANK, self.tag, self.with_tags(_ANY, _ANY))) if self.tag is not None else written

    def with_tags(self, first: Node, more: Node) -> Node:
        """Return the text ``first``, followed by any number of text tokens, each followed by the text ``more``."""
        return first if self.tag is None else seq(first, repeat(seq(self.tag, more)))

    @cached_property
    def tag(self) -> Node | None:
        """One of the tokens that are text; None where the vocabulary has none."""
        return Tokens(tuple((i, i) for i in self.tokens.text_ids), label="text") if self.tokens.text_ids else None

    def marked(self, text: str) -> str:
        """Return ``text`` with every token as one lone surrogate; registers those tokens for `char`."""
        return "".join(piece if isinstance(piece, str) else self._register(piece) for piece in self.pieces(text))

    def char(self, token_id: int) -> str | None:
        """Return the surrogate of a token that a marker uses; None for other tokens."""
        return self._chars.get(token_id)

    def plain(self, marked: str) -> str:
        """Return marked text with its surrogates spelled out again."""
        if not self._chars:
            return marked
        texts = {char: self.tokens.text(token_id) for token_id, char in self._chars.items()}
        return "".join(texts.get(char, char) for char in marked)

    def _register(self, token_id: int) -> str:
        if token_id not in self._chars:
            code = _FIRST + len(self._chars)
            if code > _LAST:
                raise ValueError("a plan cannot use more than 2,048 different marker tokens")
            self._chars[token_id] = chr(code)
        return self._chars[token_id]
