"""The wire format of a live model."""

from __future__ import annotations

from typing import Any

from grammars.formats.data import format_of_family
from grammars.formats.format import Ends, Format
from special_tokens import SpecialTokens

__all__ = ["format_of"]


def format_of(tokenizer: Any, tokens: SpecialTokens) -> Format:
    """The format of this tokenizer's model."""
    if tokens.family is not None:
        return format_of_family(tokens.family)
    return Format("plain", ends=Ends(tuple(end.text for end in tokens.ends)))
