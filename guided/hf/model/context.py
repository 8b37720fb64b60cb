"""A model with its tokenizer and what guided derives from them, as one value that the whole adapter shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan, RowPlan
from grammars.values.format import Format
from guided.engine.engine import Engine
from guided.hf.cache.prefix_pool import PrefixPool
from guided.hf.model.chat_template import render_chat
from guided.hf.model.incremental import IncrementalTokenizer
from guided.hf.model.tokenizer import tokenizer_json
from guided.state.entry import FRESH, Begin, begin_of
from special_tokens import SpecialTokens
from special_tokens.errors import TemplateError

__all__ = ["ModelContext"]


@dataclass(frozen=True, eq=False)
class ModelContext:
    """A transformers model and its tokenizer, their special tokens, their wire format, and the pool of kept rows.

    Each `guided.hf.guide.Guide` owns one.
    """

    model: Any
    tokenizer: Any
    tokens: SpecialTokens
    format: Format
    pool: PrefixPool = field(default_factory=PrefixPool)

    @property
    def name(self) -> str:
        """The model's name on the hub, or that of the folder it was loaded from; else its class."""
        loaded = str(getattr(self.model, "name_or_path", ""))
        return (Path(loaded).name if Path(loaded).is_dir() else loaded) or type(self.model).__name__

    @cached_property
    def engine(self) -> Engine:
        """The engine of this vocabulary, built on first use."""
        return Engine(tokenizer_json(self.tokenizer), self.tokens)

    @cached_property
    def reader(self) -> Plan | None:
        """The plan whose regions are used to read answers of rows without a plan; it guides nothing.

        None if such an answer has no parts: all of it is content.
        """
        thinking = True if self.format.reasoning is not None else None  # a block is read wherever one is written
        plan = compose(Parts(thinking=thinking), tokens=self.tokens, format=self.format)
        return plan if any(region.exits for region in plan.regions) else None

    @cached_property
    def tokenised(self) -> IncrementalTokenizer:
        """The tokenizer, which reads only the new part of a prompt that continues an earlier one."""
        return IncrementalTokenizer(self.tokenizer)

    def prompt_ids(self, messages: Sequence[Mapping[str, Any]], plan: Plan | None, system_text: str = "") -> list[int]:
        """Return the token ids of the prompt that shows ``messages`` under ``plan``, generation prompt included.

        ``system_text`` comes at the end of the system message.
        """
        return render_chat(self.tokenised, messages, self.format, plan, self.tokens, system_text)

    def begin(self, row: RowPlan, prompt_ids: Sequence[int]) -> Begin:
        """Return the place at which the answer begins after this prompt: in the row's plan, or in `reader`."""
        plan = row if isinstance(row, Plan) else self.reader
        if plan is None:
            return FRESH
        begin = begin_of(plan, prompt_ids, self.engine)
        return begin if plan is row else replace(begin, reader=plan)

    def usual_begin(self, row: RowPlan) -> Begin:
        """Return where an answer of ``row`` begins after the chat template's own end of a prompt."""
        try:
            ids = self.prompt_ids([{"role": "user", "content": "?"}], row if isinstance(row, Plan) else None)
        except TemplateError:
            ids = []
        return self.begin(row, ids)

    @property
    def pad_id(self) -> int:
        """The id that fills short rows: the tokenizer's pad token, else an end token."""
        for candidate in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, *self.tokens.end_ids):
            if candidate is not None:
                return int(candidate)
        return 0
