"""One run of the decode loop over one batch: from inputs, plans and samplings to messages."""

from __future__ import annotations

import atexit
import contextlib
import logging
import weakref
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Protocol

import torch

from grammars.plan.plan import Plan, RowPlan
from guided.hf.cache.kv_cache import AppendKV, KVCache
from guided.hf.cache.prefix_pool import Reuse
from guided.hf.cache.self_test import abilities_of
from guided.hf.cache.step_kv import StepKV
from guided.hf.drafts.drafts import Drafts, drafts_of
from guided.hf.drafts.settings import DraftSettings, say_once
from guided.hf.generate.inputs import Inputs
from guided.hf.hidden.messages import LastStates, with_last_states
from guided.hf.hidden.settings import HiddenStates
from guided.hf.loop.loop_row import LoopRow
from guided.hf.loop.prepare import Prepared, own_loop, prepare
from guided.hf.loop.recorder import Recorder
from guided.hf.loop.row_loop import RowLoop, Step
from guided.hf.loop.sampling import RowSampler
from guided.hf.model.conflicts import warn_of_conflicts
from guided.hf.model.context import ModelContext
from guided.inspect.trace import build_trace
from guided.landing.options import Budgeting
from guided.output.message import Message, Usage
from guided.rows.alone import attempt, completed
from guided.rows.answer import RowAnswer
from guided.rows.sequence import OnError
from guided.sampling import RowSampling, TokenLogprob
from special_tokens.errors import ModelError, RequestError

__all__ = ["Generation", "Streamer"]

log = logging.getLogger("guided")

#: Top tokens per position that a trace shows.
TRACE_TOP = 5

#: Runs that have begun.  torch aborts the process for one that is still open while Python takes its modules down.
_OPEN: weakref.WeakSet[Generator[Step, None, None]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for steps in list(_OPEN):
        with contextlib.suppress(Exception):  # another thread runs it
            steps.close()


class Streamer(Protocol):
    """A streamer as in transformers: receives the prompt, then the tokens of each step."""

    def put(self, value: torch.Tensor) -> None: ...

    def end(self) -> None: ...


class Generation:
    """Rows and their answers.  Iterate `steps` once; `messages` are then the answers.

    ``inputs``, ``plans``, ``rows`` and ``max_tokens`` have one entry per row; ``choices`` has one per message, the
    index of its row: several greedy answers to one prompt are one row.  A ``streamer``, of a single row, gets each run
    of tokens at once.  Raises `RequestError` for one with several rows.
    """

    def __init__(
        self,
        context: ModelContext,
        inputs: Inputs,
        plans: Sequence[RowPlan],
        rows: Sequence[RowSampling],
        max_tokens: Sequence[int],
        choices: Sequence[int],
        *,
        on_error: OnError = "end",
        trace: bool = False,
        streamer: Streamer | None = None,
        reuse: bool = True,
        drafts: DraftSettings | None = None,
        hidden: HiddenStates | None = None,
        budget: Budgeting | None = None,
    ) -> None:
        if streamer is not None and len(plans) > 1:
            raise RequestError(f"it is one for {len(plans)} answers", place="streamer", hint="use one for each chat")
        self.context = context
        self.inputs = inputs
        self.plans = tuple(plans)
        self.rows = tuple(rows)
        self.choices = tuple(choices)
        self.trace = trace
        self._max_tokens = tuple(max_tokens)
        self._streamer = streamer
        self._reuse = reuse
        self._drafts = drafts
        self._hidden = hidden
        self._states = LastStates() if hidden is not None and hidden.strategy != "prefill" else None
        self._notes: tuple[str, ...] = ()
        self._recorder = self._make_recorder()
        self.answers = [
            RowAnswer(
                plan,
                context.engine,
                begin=inputs.begins[r],
                max_tokens=max_tokens[r],
                budget=budget,
                number=r,
                on_error=on_error,
                prompt_tokens=len(inputs.prompt_ids[r]),
            )
            for r, plan in enumerate(plans)
        ]
        #: what joins a loop, a row for each of `answers`
        self.loop_rows = [
            LoopRow(
                r,
                answer,
                max_tokens[r],
                list(inputs.prompt_ids[r]),
                RowSampler(self.rows[r], inputs.prompt_ids[r]),
                self._recorder,
                self._states,
            )
            for r, answer in enumerate(self.answers)
        ]

    def _make_recorder(self) -> Recorder | None:
        if self.trace:
            return Recorder({r: max(TRACE_TOP, row.logprobs or 0) for r, row in enumerate(self.rows)})
        wanted = {r: row.logprobs for r, row in enumerate(self.rows) if row.logprobs is not None}
        return Recorder(wanted) if wanted else None

    def steps(self) -> Iterator[Step]:
        """Run the loop; `answers` grow with each step."""
        steps = self._steps()
        _OPEN.add(steps)
        return steps

    def _steps(self) -> Generator[Step, None, None]:
        self._show(self.inputs["input_ids"])
        loop = own_loop(self.context, self._prepared, self.inputs)
        try:
            step = self.join(loop)
            if step.tokens:
                self._show_step(step)
                yield step
            while not loop.is_empty:
                step = loop.step()
                self._show_step(step)
                yield step
        finally:
            loop.close()
        if self._streamer is not None:
            self._guarded("end")

    @cached_property
    def _prepared(self) -> Prepared:
        # The last token is fed as well where its state is wanted.
        most = max(self._max_tokens) + (self._states is not None)
        is_free = self._drafts is None and not any(isinstance(plan, Plan) for plan in self.plans)
        return prepare(self.context, self.inputs, most, is_free=is_free)

    @property
    def why_alone(self) -> str:
        """Why the rows cannot join a loop with those of other calls, so that `steps` must run them; "" if they can."""
        return self._prepared.why_alone

    def join(self, loop: RowLoop) -> Step:
        """Let the rows join a loop that is not `steps`' own; return the tokens that are forced before any forward.

        `loop_rows` are those rows, `answers` grow with the loop's steps, and `messages` are there when all have left.
        Raises `RequestError` where the loop never has room for them, `ModelError` where they are decoded `why_alone`.
        """
        if loop.capacity.is_shared and self.why_alone:
            raise ModelError(f"these rows cannot join others: {self.why_alone}", hint="run them by themselves")
        if any(plan is not None for plan in self.plans):
            warn_of_conflicts(self.context.model.generation_config, self.context.tokens)
        loop.capacity.check(self.loop_rows)
        reuse = self._kept_rows(self._prepared)
        drafts = self._make_drafts(self._prepared, loop.cache)
        for row in self.loop_rows:
            row.reuse, row.drafts = reuse, drafts
        return loop.join(self.loop_rows)

    def _kept_rows(self, prepared: Prepared) -> Reuse | None:
        """Return the way to the kept rows; None where this call, the guide or the model keeps none."""
        pool = self.context.pool
        pool.note_off(prepared.off)
        if self._reuse and pool.is_on and ": " in prepared.off:
            say_once(self.context.model, f"no rows are kept for later turns, {prepared.off}")
        return Reuse(pool, self.context.model) if self._reuse and pool.is_on and not prepared.off else None

    def _make_drafts(self, prepared: Prepared, cache: KVCache | StepKV) -> Drafts | None:
        """Return the drafts of the run; None if the call asks for none, or the cache cannot be cropped."""
        settings, context = self._drafts, self.context
        if settings is None:
            return None
        drafts: Drafts | str = prepared.off or "; ".join(abilities_of(context.model).notes)
        if not isinstance(cache, AppendKV | StepKV):
            drafts = drafts_of(settings, context.model, context.engine, self.answers, self.inputs.prompt_ids)
        if isinstance(drafts, Drafts):
            return drafts
        self._notes += (f"no drafts: {drafts}",)
        say_once(context.model, self._notes[-1])
        return None

    # -- the streamer of the caller

    def _show_step(self, step: Step) -> None:
        if self._streamer is None:
            return
        if written := step.tokens.get(self.loop_rows[0]):
            self._show(torch.tensor(written))

    def _show(self, tokens: torch.Tensor) -> None:
        if self._streamer is not None:
            self._guarded("put", tokens.cpu())

    def _guarded(self, name: str, *args: torch.Tensor) -> None:
        """Call the streamer; one that raises is left out from then on, and the answers say so."""
        try:
            getattr(self._streamer, name)(*args)
        except Exception as error:
            self._streamer = None
            note = f"the streamer raised {type(error).__name__} ({error}) and was left out"
            log.warning("%s", note)
            self._notes += (note,)

    # -- the answers

    def messages(self) -> list[Message]:
        """Return the message of each of ``choices``."""
        messages = [self._message(r) for r in range(len(self.rows))]
        if self._hidden is not None:
            pool = self.context.pool if self._reuse else None
            messages = with_last_states(self.context.model, messages, self._hidden, pool=pool, states=self._states)
        return [messages[r] for r in self.choices]

    def _message(self, r: int) -> Message:
        row = self.loop_rows[r]
        message = self.answers[r].message(
            Usage(
                forwards=row.forwards,
                cached_tokens=row.cached,
                drafted_tokens=row.drafted,
                accepted_tokens=row.accepted,
            )
        )
        message = replace(message, notes=(*message.notes, *self._notes), prompt_ids=self.inputs.prompt_ids[r])
        return completed(message, r, partial(self._recorded, r))

    def _recorded(self, r: int, message: Message) -> Message:
        """Return the message of row ``r`` with what the recorder knows of it."""
        if self._recorder is None or r not in self._recorder.rows:
            return message
        plan, engine = self.plans[r], self.context.engine
        records = self._recorder.logprobs(r, message.token_ids)
        if isinstance(plan, Plan):
            overridden = sum(record.overridden for record in records)
            message = replace(message, guidance=replace(message.guidance, overridden=overridden))
        if self.trace:
            trace = build_trace(
                message, plan, engine, records, begin=self.inputs.begins[r], fed_together=set(self.answers[r].forced)
            )
            text = self.context.tokenizer.decode(self.inputs.prompt_ids[r])
            message = replace(message, trace=trace.of_run(self._recorder.seconds(r), self.context.name, text))
        if self.rows[r].logprobs is None:
            return message
        return replace(message, logprobs=self._cut(r, records))

    def num_recorded(self, r: int) -> int | None:
        """Return the number of tokens of row ``r`` whose log-probabilities are there; None if none are asked for."""
        return None if self._recorder is None or self.rows[r].logprobs is None else self._recorder.num_recorded(r)

    def logprobs(self, r: int, first: int, end: int) -> tuple[TokenLogprob, ...]:
        """Return the log-probabilities of the tokens ``first`` to ``end`` of row ``r``, of those that are there."""
        if self.num_recorded(r) is None or self._recorder is None:
            return ()
        tokens, fail = self.answers[r].tokens[first:end], self.answers[r].fail
        return self._cut(r, attempt(fail, (), self._recorder.logprobs, r, tokens, first))

    def _cut(self, r: int, records: Sequence[TokenLogprob]) -> tuple[TokenLogprob, ...]:
        """Return the records with as many top tokens as row ``r`` asks for."""
        size = self.rows[r].logprobs
        return tuple(replace(t, top=t.top[:size], top_masked=t.top_masked[:size]) for t in records)
