"""One call of ``model.generate``: the keyword arguments for it, and the messages read from its output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from grammars.plan.plan import Plan, RowPlan, Stops
from guided.engine.engine import Engine
from guided.hf.generate.hooks import GuidanceCriteria, GuidanceProcessor, OneSession, SessionPerThread
from guided.hf.generate.inputs import Inputs, check_rows
from guided.hf.generate.session import Session
from guided.hf.model.conflicts import warn_of_conflicts
from guided.hf.model.context import ModelContext
from guided.hf.model.tokenizer import eos_ids, logits_widths
from guided.hf.model.tokenizer_context import TokenizerContext
from guided.landing.options import Budgeting, LandingOptions, ShortBudget, budgeting, checked_max_tokens
from guided.output.message import Message
from guided.rows.answer import read_answer
from guided.rows.beams import Row
from guided.rows.making import make_row
from guided.rows.sequence import OnError, RowSequence, check_on_error
from guided.rows.unguided import UnguidedSequence
from guided.state.entry import FRESH, Begin, begin_of
from guided.state.state import GuidanceState
from guided.stops.request import check_stops
from special_tokens.errors import GuidanceError, PlanError, RequestError, shown

__all__ = ["generate_kwargs", "parsed_answer", "read_messages"]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The settings of all rows of a call, see `generate_kwargs`."""

    on_error: OnError = "end"
    max_rollbacks: int | None = None
    in_place: bool = False
    max_tokens: int | None = None
    budget: Budgeting = Budgeting()

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        if not isinstance(self.in_place, bool):
            raise PlanError(f"in_place={shown(self.in_place)}", place="batch", expected="True or False")
        count: object = self.max_rollbacks
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
            expected = "an integer of 0 or more, or None"
            raise PlanError(f"max_rollbacks={shown(count)}", place="batch", expected=expected)
        if self.max_tokens is not None:
            checked_max_tokens(self.max_tokens)

    def row(self, plan: RowPlan, engine: Engine, begin: Begin, number: int) -> Row | None:
        """Return a new row for ``plan``; None if there is no plan."""
        return make_row(
            plan,
            engine,
            begin=begin,
            max_tokens=self.max_tokens,
            budget=self.budget,
            number=number,
            on_error=self.on_error,
            max_rollbacks=self.max_rollbacks,
        )

    def words(self) -> dict[str, Any]:
        """Return the limit of tokens in the words of ``generate``."""
        return {} if self.max_tokens is None else {"max_new_tokens": self.max_tokens}


def generate_kwargs(
    context: ModelContext,
    inputs: Inputs | None,
    plans: Sequence[RowPlan] | RowPlan,
    *,
    landing: bool | LandingOptions = True,
    short_budget: ShortBudget = "cut",
    **settings: Any,
) -> dict[str, Any]:
    """Return the hooks and the limit for ``model.generate(**inputs, ...)``; reusable for one call after another.

    A row of ``plans`` is a plan, stops alone (its logits stay untouched), or None; when all rows are None there are no
    hooks.  Without ``inputs``, one plan guides every row of any prompts, as in a pipeline.  ``settings`` are `_Rows`.
    """
    how = _Rows(**settings, budget=budgeting(landing, short_budget))
    engine = context.engine
    if inputs is None:
        return how.words() | _hooks(context, SessionPerThread(_unbound(context, plans, how)))
    rows = check_rows(plans, inputs.num_rows)
    begins = inputs.begins
    if all(plan is None for plan in rows):
        inputs.session = None
        return how.words()

    def make(prompt: int, number: int, ids: Sequence[int]) -> Row | None:
        return how.row(rows[prompt], engine, begins[prompt], number)

    inputs.session = Session(
        make,
        engine,
        num_prompts=inputs.num_rows,
        prompts=inputs.prompt_ids,
        padded=inputs["input_ids"].tolist(),
        filler=context.pad_id,
        in_place=how.in_place,
        widths=logits_widths(context.model),
    )
    return how.words() | _hooks(context, OneSession(inputs.session))


def _unbound(context: ModelContext, plan: Sequence[RowPlan] | RowPlan, how: _Rows) -> Callable[[], Session]:
    """Return a function that creates sessions in which one plan guides every row, whatever the prompts are."""
    engine = context.engine
    if not isinstance(plan, Plan | Stops):
        raise PlanError("there are no chats", place="batch", expected="chats, or one plan as plans=plan")
    if isinstance(plan, Plan):
        engine.pristine(plan)  # refuses a plan of another vocabulary now
    else:
        check_stops(plan, engine.tokens)

    def make(prompt: int, number: int, ids: Sequence[int]) -> Row | None:
        begin = begin_of(plan, ids, engine) if isinstance(plan, Plan) else FRESH
        return how.row(plan, engine, begin, number)

    widths = logits_widths(context.model)
    options: dict[str, Any] = {"filler": context.pad_id, "in_place": how.in_place, "widths": widths}
    return lambda: Session(make, engine, num_prompts=None, **options)


def _hooks(context: ModelContext, held: OneSession | SessionPerThread) -> dict[str, Any]:
    config = context.model.generation_config
    warn_of_conflicts(config, context.tokens)
    kwargs: dict[str, Any] = {
        "logits_processor": [GuidanceProcessor(held)],
        "stopping_criteria": [GuidanceCriteria(held, context.tokens.end_ids)],
    }
    if getattr(config, "pad_token_id", None) is None and not eos_ids(getattr(config, "eos_token_id", None)):
        kwargs["pad_token_id"] = context.pad_id  # else ``generate`` finds one, or the caller names one
    return kwargs


def read_messages(context: ModelContext, output: Any, inputs: Inputs, plans: Sequence[RowPlan]) -> list[Message]:
    """Return the messages of ``output``, which ``model.generate`` returned for these inputs and plans.

    Counters are those of the last `generate_kwargs` call for ``inputs``.
    """
    sequences = _sequences(output)
    plans = check_rows(plans, inputs.num_rows)
    num_rows = int(sequences.shape[0])
    if num_rows % inputs.num_rows:
        raise PlanError(
            f"{num_rows} rows came out of {inputs.num_rows} prompts", place="messages", expected="a multiple"
        )
    expand = num_rows // inputs.num_rows
    generated = inputs.generated(sequences)
    rows: list[Row | None] = [None] * num_rows
    if inputs.session is not None:
        rows = inputs.session.rows_at(generated)
        _end_cut_rows(context, rows, generated)
    messages: list[Message] = []
    for r, (row, tokens) in enumerate(zip(rows, generated, strict=True)):
        p = r // expand
        used = len(inputs.prompt_ids[p])
        plan: RowPlan = plans[p]
        notes: tuple[str, ...] = ()
        if isinstance(plan, Plan) and row is None:
            plan = context.without_masks(plan)
            notes = ("nothing guided this text: generate was called without the arguments of guide.batch",)
        message = read_answer(
            tokens, plan, context.engine, begin=inputs.begins[p], sequence=row, prompt_tokens=used, number=r
        )
        messages.append(replace(message, prompt_ids=inputs.prompt_ids[p], notes=(*message.notes, *notes)))
    return messages


def parsed_answer(context: TokenizerContext, ids: Any, plan: RowPlan) -> Message:
    """Return the message of `guided.Guide.parse`.

    Ids without an end token that are a whole answer under a response format are read as one.
    """
    ids = ids.tolist() if isinstance(ids, torch.Tensor) else ids
    if isinstance(ids, str | bytes) or not isinstance(ids, Sequence) or not all(isinstance(i, int) for i in ids):
        raise RequestError(f"{type(ids).__name__} holds no answer", place="ids", expected="a list of token ids")
    (plan,) = check_rows([plan], 1)
    begin = context.usual_begin(plan)
    read_with = context.without_masks(plan) if isinstance(plan, Plan) else plan
    message = read_answer(list(ids), read_with, context.engine, begin=begin)
    if message.finish_reason != "length" or not isinstance(plan, Plan) or plan.response is None:
        return message
    state = GuidanceState(plan, context.engine, entry=begin.entry)
    try:
        state.commit(list(ids))
        ends = state.open_end_ids()
    except GuidanceError:
        return message  # no answer of this plan
    if not ends:
        return message
    whole = read_answer([*ids, ends[0]], read_with, context.engine, begin=begin)
    usage = replace(whole.usage, completion_tokens=len(ids))
    return replace(whole, token_ids=tuple(ids), usage=usage)


def _sequences(output: Any) -> torch.Tensor:
    """Return the token ids int64 ``[rows, length]`` in the output of ``generate``; raises `PlanError` without any."""
    sequences = output if isinstance(output, torch.Tensor) else getattr(output, "sequences", None)
    if not isinstance(sequences, torch.Tensor) or sequences.dim() != 2:
        raise PlanError(
            f"{type(output).__name__} holds no sequences",
            place="messages",
            expected="what model.generate returned; generate_batch and pipelines take no part in this",
        )
    return sequences


def _end_cut_rows(context: ModelContext, rows: list[Row | None], generated: list[list[int]]) -> None:
    """Remove the padding from ``generated``, the tokens of each row, and the error that it caused in ``rows``.

    ``generate`` pads rows that end before others with one id, and says neither which id nor why a row ended.  If
    guidance ended the row, nothing after its end is read.  If the call ended it, by a stop string or criterion of its
    own, its grammar refuses the padding, like a token that was chosen against the mask, and a row without a grammar
    reads it as text.  Neither is a failure of the row, and the padding is not part of its answer.
    Both lists are changed in place.  Errors of tokens that were chosen against the mask stay.
    """
    config = context.model.generation_config
    # without a pad token ``generate`` takes the first end
    pad_ids = eos_ids(getattr(config, "pad_token_id", None)) or eos_ids(getattr(config, "eos_token_id", None))
    pads = {context.pad_id, *pad_ids[:1]}
    for r, row in enumerate(rows):
        if isinstance(row, RowSequence):
            tail = generated[r][row.num_tokens :]
            # One that only the call names: twice after a row.  Without guidance, text may repeat as well.
            is_named = len(tail) > 1 and (row.on_error == "end" or tail[0] in context.tokens.marker_ids)
            ended = row.before_padding(generated[r], pads.union(tail) if is_named else pads)
            if ended is not None:
                rows[r], generated[r] = ended, generated[r][: ended.num_tokens]
        elif len(rows) > 1:  # a row that is alone is not filled
            generated[r] = _unfilled(context, row, generated[r], pads)


def _unfilled(
    context: ModelContext, row: UnguidedSequence | None, tokens: list[int], pads: Collection[int]
) -> list[int]:
    """Return the tokens of a row without a grammar, without padding.

    End tokens, ordinary text and stops of the row are kept, because the row may have written them.
    """
    pad = tokens[-1] if tokens else -1
    if pad not in pads or pad not in context.tokens.marker_ids or pad in context.tokens.end_ids:
        return tokens
    stops = row.stops.stops if row is not None else Stops()
    if pad in stops.ids or (pad in context.tokens.added and context.tokens.added[pad].text in stops.strings):
        return tokens
    size = len(tokens)
    while size and tokens[size - 1] == pad:
        size -= 1
    return tokens[:size]
