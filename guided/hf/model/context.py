"""A model with its tokenizer and what guided derives from them, as one value that the whole adapter shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guided.hf.cache.prefix_pool import PrefixPool
from guided.hf.model.tokenizer_context import TokenizerContext

__all__ = ["ModelContext"]


@dataclass(frozen=True, eq=False)
class ModelContext(TokenizerContext):
    """The context of a transformers model: its tokenizer's, its weights, and the pool of kept rows.

    Each `guided.hf.guide.Guide` owns one.
    """

    model: Any = field(kw_only=True)
    pool: PrefixPool = field(default_factory=PrefixPool)

    @property
    def name(self) -> str:
        """The model's name on the hub, or that of the folder it was loaded from; else its class."""
        loaded = str(getattr(self.model, "name_or_path", ""))
        return (Path(loaded).name if Path(loaded).is_dir() else loaded) or type(self.model).__name__
