"""A model with its tokenizer and what guided derives from them, as one value that the whole adapter shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grammars.values.format import Format
from guided.engine.engine import Engine
from guided.hf.model.tokenizer import tokenizer_json
from special_tokens import SpecialTokens

__all__ = ["ModelContext"]


@dataclass(frozen=True, eq=False)
class ModelContext:
    """A transformers model, its tokenizer, their special tokens and wire format; owned by `guided.hf.guide.Guide`."""

    model: Any
    tokenizer: Any
    tokens: SpecialTokens
    format: Format

    @cached_property
    def engine(self) -> Engine:
        """The engine of this vocabulary, built on first use."""
        return Engine(tokenizer_json(self.tokenizer), self.tokens)

    @property
    def pad_id(self) -> int:
        """The id that fills short rows: the tokenizer's pad token, else an end token."""
        for candidate in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, *self.tokens.end_ids):
            if candidate is not None:
                return int(candidate)
        return 0
