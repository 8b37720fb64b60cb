"""One call of our own decode loop over one batch: rows in, steps out, messages in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grammars.plan.plan import Plan
from guided.hf.loop.decode import Step, Streamer, Watch, start
from guided.hf.generate.inputs import Inputs
from guided.hf.loop.recorder import Recorder
from guided.hf.loop.sampling import BatchSampler
from guided.output.message import Message
from guided.output.parser import CallIds
from guided.sampling import RowSampling
from guided.rows.sequence import OnError, RowPlan, read_answer
from guided.inspect.trace import build_trace

if TYPE_CHECKING:
    from guided.hf.guide import Guide

__all__ = ["Generation"]

#: Best tokens per position that a trace shows.
TRACE_TOP = 5

#: What keeps ``generate`` from sampling and searching itself.
_NEUTRAL: dict[str, Any] = {
    "do_sample": False,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 50,
    "min_p": None,
    "repetition_penalty": 1.0,
    "num_beams": 1,
    "num_return_sequences": 1,
}


class Generation:
    """Prepared rows and what became of them.  Iterate `steps` once; then `messages` reads the answers."""

    def __init__(
        self,
        guide: Guide,
        inputs: Inputs,
        plans: Sequence[RowPlan],
        rows: Sequence[RowSampling],
        max_tokens: Sequence[int],
        *,
        on_error: OnError = "end",
        trace: bool = False,
        streamer: Streamer | None = None,
    ) -> None:
        self.guide = guide
        self.inputs = inputs
        self.plans = tuple(plans)
        self.rows = tuple(rows)
        self.trace = trace
        self.tokens: list[list[int]] = [[] for _ in rows]
        self.call_ids = [CallIds(plan if isinstance(plan, Plan) else None) for plan in plans]
        recorder = self._recorder()
        # The loop's logits are a copy of its own: only a recorder wants them as the model wrote them.
        self._options = guide.generate_kwargs(inputs, plans, on_error=on_error, in_place=recorder is None)
        self._options |= _NEUTRAL | {"max_new_tokens": max(max_tokens)}
        self.watch = Watch(
            sampler=BatchSampler(rows, inputs.prompt_ids),
            max_tokens=tuple(max_tokens),
            recorder=recorder,
            streamer=streamer,
        )

    def _recorder(self) -> Recorder | None:
        if self.trace:
            return Recorder({r: max(TRACE_TOP, row.logprobs or 0) for r, row in enumerate(self.rows)})
        wanted = {r: row.logprobs for r, row in enumerate(self.rows) if row.logprobs is not None}
        return Recorder(wanted) if wanted else None

    def steps(self) -> Iterator[Step]:
        """Run the loop; the tokens that each row wrote itself are collected in ``tokens``."""
        for step in start(self.guide.model, self.inputs, self.watch, **self._options):
            for tokens, token, live in zip(self.tokens, step.tokens, step.live, strict=True):
                if live:
                    tokens.append(token)
            yield step

    def messages(self) -> list[Message]:
        """The answers, row by row."""
        if self.inputs.session is not None:
            self.inputs.session.settle()
        return [self._message(r) for r in range(len(self.rows))]

    def _message(self, r: int) -> Message:
        plan, guide = self.plans[r], self.guide
        session = self.inputs.session
        message = read_answer(
            self.tokens[r],
            plan,
            guide.engine,
            begin=self.inputs.begins[r],
            sequence=session.rows[r] if session is not None else None,
            prompt_tokens=len(self.inputs.prompt_ids[r]),
            error=self.watch.errors.get(r),
            make_call_id=self.call_ids[r],
        )
        if self.watch.recorder is None or r not in self.watch.recorder.rows:
            return message
        records = self.watch.recorder.logprobs(r, message.token_ids)
        if self.trace:
            trace = build_trace(message, plan, guide.engine, records, begin=self.inputs.begins[r])
            message = replace(message, trace=trace)
        size = self.rows[r].logprobs
        if size is None:
            return message
        cut = [replace(t, top=t.top[:size], top_masked=t.top_masked[:size]) for t in records]
        return replace(message, logprobs=tuple(cut))
