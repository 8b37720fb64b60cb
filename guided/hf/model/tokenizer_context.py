"""A tokenizer with what guided derives from it: prompts, the engine, and where an answer begins.  Needs no weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

from grammars.compose.compose import Parts, compose
from grammars.compose.region_table import plan_without_masks
from grammars.plan.plan import Plan, RowPlan
from grammars.prompt.describe import describe_plan
from grammars.tree.markers import Markers
from grammars.values.format import Format
from guided.engine.engine import Engine
from guided.hf.model.chat_template import encode, messages_of, prompt_text
from guided.hf.model.tokenizer import facts_of, tokenizer_json
from guided.hf.model.wire_format import format_of
from guided.state.entry import FRESH, Begin, begin_of
from special_tokens import SpecialTokens
from special_tokens.errors import RequestError, TemplateError

__all__ = ["BoundPrompt", "TokenizerContext"]


class BoundPrompt(NamedTuple):
    """The token ids of a prompt, and the place in its row's plan at which the answer after it begins."""

    token_ids: list[int]
    begin: Begin


@dataclass(frozen=True, eq=False)
class TokenizerContext:
    """A transformers tokenizer, the special tokens of it and its model, and their wire format."""

    tokenizer: Any
    tokens: SpecialTokens
    format: Format

    @classmethod
    def of(cls, tokenizer: Any, config: Any, generation_config: Any = None) -> TokenizerContext:
        """Return the context of a tokenizer and its model's two configurations, of which end ids and widths are read.

        Raises `TokenizerError` for what is not a fast tokenizer.
        """
        model = SimpleNamespace(config=config, generation_config=generation_config)
        tokens = SpecialTokens(facts_of(tokenizer, model=model))
        return cls(tokenizer, tokens, format_of(tokenizer, tokens))

    @property
    def name(self) -> str:
        """The tokenizer's name."""
        return self.tokens.facts.name

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
        return self.without_masks(plan) if any(region.exits for region in plan.regions) else None

    def without_masks(self, plan: Plan) -> Plan:
        """Return the plan with which an answer is read that no mask guided: see `plan_without_masks`."""
        return plan_without_masks(plan, Markers(self.tokens))

    def prompt(self, chat: Any, row: RowPlan, *, describe: bool = True) -> BoundPrompt:
        """Return the prompt that shows a chat, rendered with the template arguments of its row's plan.

        ``describe`` adds the system text that describes tools and response format to the model.
        """
        messages, plan = messages_of(chat), row if isinstance(row, Plan) else None
        system_text = describe_plan(plan) if plan is not None and describe else ""  # in this prompt only
        return self.bound(self.prompt_ids(messages, plan, system_text), row)

    def prompt_ids(self, messages: Sequence[Mapping[str, Any]], plan: Plan | None, system_text: str = "") -> list[int]:
        """Return the token ids of the prompt that shows ``messages`` under ``plan``, generation prompt included.

        ``system_text`` comes at the end of the system message.  Message text that spells a special token is encoded as
        ordinary text.
        """
        text = prompt_text(self.tokenizer, messages, self.format, plan, self.tokens, system_text)
        form = self.format.tool_calls
        return encode(self.tokenizer, text, self.tokens, form.anchors if form is not None else ())

    def bound(self, prompt_ids: Sequence[int], row: RowPlan) -> BoundPrompt:
        """Return token ids of a prompt, bound to its row's plan; raises `RequestError` without any."""
        if not prompt_ids:
            raise RequestError("there is nothing in the prompt", place="messages", expected="some text")
        return BoundPrompt(list(prompt_ids), self.begin(row, prompt_ids))

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
