"""Special tokens as records, and sets of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from special_tokens.errors import RequestError, shown
from special_tokens.roles import Category, Source

__all__ = ["SpecialToken", "TokenSet", "member"]


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


def member(kind: type[_Member], name: str, place: str) -> _Member:
    """The member of the enumeration ``kind`` with this name; ``place`` is the argument that an error names."""
    try:
        return kind(name)
    except ValueError:
        raise RequestError(f"there is no {place} {shown(name)}", place=place, expected=", ".join(kind)) from None
