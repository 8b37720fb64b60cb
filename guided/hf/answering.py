"""Bind chats or prompts to their plans, and start a run of the decode loop over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from grammars.plan.plan import Plan, RowPlan, Stops
from guided.hf.drafts.settings import draft_settings
from guided.hf.generate.inputs import Inputs, bind, check_rows, checked_inputs
from guided.hf.generate.raw_prompts import heal, read_prompts
from guided.hf.hidden.settings import hidden_settings
from guided.hf.loop.generation import Generation
from guided.hf.loop.sampling import context_size, row_samplings
from guided.hf.options import AnswerOptions
from guided.hf.planning import Planner, checked_stops
from guided.landing.options import budgeting, token_limit, with_limit_notes
from guided.sampling import Sampling
from special_tokens.errors import RequestError, shown

__all__ = ["check_one", "generation_of", "plan_of", "plans_of", "rows_of"]


def plan_of(planner: Planner, asked: AnswerOptions) -> Plan:
    """Return the plan that the keywords of a call ask for."""
    return planner.plan(asked.parts(checked_stops(asked.stop, planner.context.engine)))


def rows_of(
    planner: Planner, chats: Any, plans: Any, asked: AnswerOptions, place: str, *, is_one: bool = False
) -> tuple[Inputs, list[RowPlan]]:
    """Return the bound prompts of a call of ``place``, and the plan of each.

    ``plans`` are one for all or one for each; with None the keywords say what the plan is.  ``is_one``: ``chats`` is
    one chat, and has a plan whatever the keywords are.
    """
    context = planner.context
    if not is_one and isinstance(chats, Plan | Stops):
        expected = "chats, or plans=plan for any prompts" if place == "batch" else "chats"
        raise RequestError("this is a plan", place="chats", expected=expected)
    if (chats is None) == (asked.prompt is None):
        given, name = "neither" if chats is None else "both", "messages" if is_one else "chats"
        raise RequestError(f"{given} of {name} and prompt", place=place, expected="one of them")
    if asked.prompt is None and not _is_encoded(chats):
        chats = [chats] if is_one else chats
        num = len(chats) if isinstance(chats, Sequence) else 0
        plans = plans_of(planner, num, plans, asked, place, is_one=is_one)
        return checked_inputs(context, chats, plans, describe=asked.describe), check_rows(plans, len(chats))
    prompts = read_prompts(context, chats if asked.prompt is None else asked.prompt)
    if is_one and len(prompts) != 1:
        raise RequestError(f"{len(prompts)} prompts", place="prompt", expected="one", hint="use guide.generate")
    rows = check_rows(plans_of(planner, len(prompts), plans, asked, place, is_one=is_one), len(prompts))
    healed = [heal(ids, plan, context.engine) for ids, plan in zip(prompts, rows, strict=True)]
    return bind(context, [context.bound(ids, plan) for ids, plan in healed]), [plan for _, plan in healed]


def _is_encoded(chats: object) -> bool:
    """Whether these prompts are the output of a tokenizer."""
    return isinstance(chats, torch.Tensor) or (isinstance(chats, Mapping) and "input_ids" in chats)


def plans_of(planner: Planner, num: int, plans: Any, asked: AnswerOptions, place: str, *, is_one: bool) -> Any:
    """Return the plans of ``num`` prompts, as in `rows_of`; None for rows without a plan."""
    if asked.retries:
        raise RequestError("only guide.chat and guide.run ask again", place="retries", expected="0")
    keyword = asked.plan_keyword()
    if plans is None:
        return [plan_of(planner, asked)] * num if keyword or is_one else None
    if keyword:
        raise RequestError(
            f"{shown(keyword)} together with a finished plan", place=place, hint="pass it to guide.plan()"
        )
    return [plans] * num if is_one or isinstance(plans, Plan | Stops) else plans


def generation_of(planner: Planner, inputs: Inputs, rows: Sequence[RowPlan], asked: AnswerOptions) -> Generation:
    """Return the run of the loop that answers the prompts of ``inputs``, each under its row's plan."""
    context = planner.context
    if not isinstance(asked.reuse, bool):
        raise RequestError(f"{shown(asked.reuse)} is not a switch", place="reuse", expected="True or False")
    drafts = draft_settings(asked.prompt_lookup_num_tokens, asked.assistant_model, context)
    hidden = hidden_settings(asked.return_last_hidden_state, context.model)
    budget = budgeting(asked.landing, asked.short_budget)
    samplings = row_samplings(asked.samplings(), asked.seed, inputs.num_rows, context.model, context.tokens.vocab_size)
    limits = [
        token_limit(plan, asked.max_tokens, len(ids), context_size(context.model, planner.most_tokens))
        for plan, ids in zip(rows, inputs.prompt_ids, strict=True)
    ]
    counts = [1 if group[0].is_greedy else len(group) for group in samplings]  # greedy answers are all the same
    index = [r for r, count in enumerate(counts) for _ in range(count)]
    sampled = [row for group, count in zip(samplings, counts, strict=True) for row in group[:count]]
    choices = [sum(counts[:r]) + min(i, counts[r] - 1) for r, group in enumerate(samplings) for i in range(len(group))]
    return Generation(
        context,
        inputs.repeated(counts),
        [with_limit_notes(rows[r], asked.max_tokens, limits[r]) for r in index],
        sampled,
        [limits[r] for r in index],
        choices,
        on_error=asked.on_error,
        trace=asked.trace,
        streamer=asked.streamer,
        reuse=asked.reuse,
        drafts=drafts,
        hidden=hidden,
        budget=budget,
    )


def check_one(asked: AnswerOptions) -> None:
    """Raise `RequestError` where a call with one answer asks for several."""
    sampling = asked.samplings()
    if not isinstance(sampling, Sampling):
        raise RequestError("samplings for several chats", place="sampling", expected="one guided.Sampling(...)")
    if sampling.n != 1:
        raise RequestError(f"n={sampling.n} for one answer", place="n", hint="use guide.generate for several answers")
