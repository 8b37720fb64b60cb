"""All special tokens of one tokenizer by category, and a search over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from special_tokens.errors import RequestError, shown
from special_tokens.roles import Category, Source

__all__ = ["Catalog", "SpecialToken", "TokenSet"]


_Member = TypeVar("_Member", Category, Source)


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """One special token; ``text`` is spelled exactly as in the tokenizer (including DeepSeek's fullwidth bars)."""

    id: int
    text: str
    category: Category
    source: Source


@dataclass(frozen=True, slots=True)
class TokenSet:
    """A set of special tokens, ordered by id."""

    tokens: tuple[SpecialToken, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids, ascending."""
        return tuple(token.id for token in self.tokens)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts in the order of the ids."""
        return tuple(token.text for token in self.tokens)

    def __iter__(self) -> Iterator[SpecialToken]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)


class Catalog:
    """The special tokens of one tokenizer; each token is in exactly one category."""

    def __init__(self, tokens: Iterable[SpecialToken]) -> None:
        self.all = TokenSet(tuple(sorted(tokens, key=lambda token: token.id)))
        self._by_category = {
            category: TokenSet(tuple(token for token in self.all if token.category is category))
            for category in Category
        }

    def category(self, category: str) -> TokenSet:
        """The tokens of the category with this name; raises `RequestError` for an unknown name."""
        return self._by_category[_member(Category, category, "category")]

    def search(
        self,
        *,
        id: int | None = None,
        substring: str | None = None,
        category: str | None = None,
        source: str | None = None,
    ) -> TokenSet:
        """The tokens that match every given filter, ordered by id; ``substring`` is case-sensitive."""
        wanted = None if category is None else _member(Category, category, "category")
        wanted_source = None if source is None else _member(Source, source, "source")
        return TokenSet(
            tuple(
                token
                for token in self.all
                if (id is None or token.id == id)
                and (substring is None or substring in token.text)
                and (wanted is None or token.category is wanted)
                and (wanted_source is None or token.source is wanted_source)
            )
        )


def _member(kind: type[_Member], name: str, place: str) -> _Member:
    """The member of the enumeration ``kind`` with this name; ``place`` is the argument that an error names."""
    try:
        return kind(name)
    except ValueError:
        raise RequestError(f"there is no {place} {shown(name)}", place=place, expected=", ".join(kind)) from None
