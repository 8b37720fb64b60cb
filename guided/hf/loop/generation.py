"""One run of the decode loop over one batch: from inputs, plans and samplings to messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from grammars.plan.plan import Plan, RowPlan
from guided.hf.generate.call import Rows, generate_kwargs
from guided.hf.generate.inputs import Inputs
from guided.hf.loop.decode import LoopControl, Step, Streamer, start
from guided.hf.loop.recorder import Recorder
from guided.hf.loop.sampling import BatchSampler
from guided.hf.model.context import ModelContext
from guided.inspect.trace import build_trace
from guided.output.message import Message
from guided.output.parser import CallIds
from guided.rows.sequence import OnError, read_answer
from guided.sampling import RowSampling

__all__ = ["Generation"]

#: Top tokens per position that a trace shows.
TRACE_TOP = 5

#: Settings with which ``generate`` neither samples nor searches itself.
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
    """Prepared rows and their tokens.  Iterate `steps` once; `messages` then parses the answers."""

    def __init__(
        self,
        context: ModelContext,
        inputs: Inputs,
        plans: Sequence[RowPlan],
        rows: Sequence[RowSampling],
        max_tokens: Sequence[int],
        *,
        on_error: OnError = "end",
        trace: bool = False,
        streamer: Streamer | None = None,
    ) -> None:
        self.context = context
        self.inputs = inputs
        self.plans = tuple(plans)
        self.rows = tuple(rows)
        self.trace = trace
        self.tokens: list[list[int]] = [[] for _ in rows]
        self.call_ids = [CallIds(plan if isinstance(plan, Plan) else None) for plan in plans]
        recorder = self._recorder()
        # The loop owns its copy of the logits: masks go in place unless a recorder needs the raw ones.
        self._options = generate_kwargs(context, inputs, plans, Rows(on_error=on_error, in_place=recorder is None))
        self._options |= _NEUTRAL | {"max_new_tokens": max(max_tokens)}
        self._options |= {"eos_token_id": list(context.tokens.end_ids) or None}
        self.control = LoopControl(
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
        """Run the loop; ``tokens[r]`` collects the tokens of row ``r`` up to its end."""
        for step in start(self.context.model, self.inputs, self.control, **self._options):
            for tokens, token, live in zip(self.tokens, step.tokens, step.live, strict=True):
                if live:
                    tokens.append(token)
            yield step

    def messages(self) -> list[Message]:
        """Return the message of each row."""
        if self.inputs.session is not None:
            self.inputs.session.settle()
        return [self._message(r) for r in range(len(self.rows))]

    def _message(self, r: int) -> Message:
        plan, engine = self.plans[r], self.context.engine
        session = self.inputs.session
        message = read_answer(
            self.tokens[r],
            plan,
            engine,
            begin=self.inputs.begins[r],
            sequence=session.rows[r] if session is not None else None,
            prompt_tokens=len(self.inputs.prompt_ids[r]),
            error=self.control.errors.get(r),
            make_call_id=self.call_ids[r],
        )
        if self.control.recorder is None or r not in self.control.recorder.rows:
            return message
        records = self.control.recorder.logprobs(r, message.token_ids)
        if self.trace:
            trace = build_trace(message, plan, engine, records, begin=self.inputs.begins[r])
            message = replace(message, trace=trace)
        size = self.rows[r].logprobs
        if size is None:
            return message
        cut = [replace(t, top=t.top[:size], top_masked=t.top_masked[:size]) for t in records]
        return replace(message, logprobs=tuple(cut))
