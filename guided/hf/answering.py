"""From chats, plans and options to a run of the decode loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grammars.plan.plan import RowPlan
from guided.hf.drafts.settings import draft_settings
from guided.hf.generate.inputs import check_rows, checked_inputs
from guided.hf.hidden.settings import hidden_settings
from guided.hf.loop.generation import Generation
from guided.hf.loop.settings import row_samplings, token_limit
from guided.hf.model.context import ModelContext
from guided.hf.options import AnswerOptions
from guided.sampling import Sampling
from special_tokens.errors import RequestError, shown

__all__ = ["check_finished", "generation_of"]


def generation_of(
    context: ModelContext, chats: Sequence[Any], plans: Sequence[RowPlan] | None, asked: AnswerOptions, *, n: int | None
) -> Generation:
    """Return the run of the loop that answers ``chats``; ``n`` is the only number of answers that is possible."""
    if asked.retries:
        raise RequestError("only guide.chat and guide.run ask again", place="retries", expected="0")
    drafts = draft_settings(asked.prompt_lookup_num_tokens, asked.assistant_model, context.model)
    hidden = hidden_settings(asked.return_last_hidden_state, context.model)
    sampling = asked.samplings()
    if n is not None and isinstance(sampling, Sampling) and sampling.n != n:
        raise RequestError(f"n={sampling.n} for one answer", place="n", hint="use guide.generate for several answers")
    inputs = checked_inputs(context, chats, plans, describe=asked.describe)
    rows = check_rows(plans, inputs.num_rows)
    samplings = row_samplings(sampling, asked.seed, inputs.num_rows, context.model, context.tokens.vocab_size)
    limits = [
        token_limit(plan, asked.max_tokens, ids, context.model)
        for plan, ids in zip(rows, inputs.prompt_ids, strict=True)
    ]
    counts = [len(group) for group in samplings]
    index = [r for r, count in enumerate(counts) for _ in range(count)]
    return Generation(
        context,
        inputs.repeated(counts),
        [rows[r] for r in index],
        [row for group in samplings for row in group],
        [limits[r] for r in index],
        on_error=asked.on_error,
        trace=asked.trace,
        streamer=asked.streamer,
        reuse=asked.reuse,
        drafts=drafts,
        hidden=hidden,
    )


def check_finished(asked: AnswerOptions, place: str) -> None:
    """Raise `RequestError` for keywords that a finished plan already decides."""
    keyword = asked.plan_keyword()
    if keyword:
        raise RequestError(
            f"{shown(keyword)} together with a finished plan", place=place, hint="pass it to guide.plan()"
        )
