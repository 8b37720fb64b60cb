"""One answer as an iterator of events while it is generated."""

from __future__ import annotations

from collections.abc import Iterator

from grammars.plan.plan import Plan
from guided.hf.loop.generation import Generation
from guided.output.message import Message
from guided.output.parser import Event
from guided.rows.sequence import parser_of
from special_tokens.errors import GuidanceError

__all__ = ["Stream"]


class Stream:
    """The events of one answer while it is generated; iterate once, then read ``message``.

    Text that may still become part of a stop sequence is held back until that is decided; no event holds stop text.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._message: Message | None = None
        self._events = self._run()

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    @property
    def message(self) -> Message:
        """The finished message; runs the rest of the stream first."""
        if self._message is None:
            for _ in self._events:
                pass
        if self._message is None:
            raise GuidanceError("the stream broke off", place="stream.message", hint="see the error that it raised")
        return self._message

    def _run(self) -> Iterator[Event]:
        run = self._generation
        engine, plan = run.context.engine, run.plans[0]
        ends = plan.end_ids() if isinstance(plan, Plan) else frozenset(engine.tokens.end_ids)
        held: list[int] = []  # a token that ends the answer unless the row goes on
        parser = parser_of(plan, engine, run.inputs.begins[0], make_call_id=run.call_ids[0])
        for step in run.steps():
            if step.live[0] and not self._failed():
                read, held = [*held, *step.tokens], []
                if read[-1] in ends:
                    held = [read.pop()]
                yield from parser.feed(read)
        yield from parser.finish()
        (self._message,) = run.messages()

    def _failed(self) -> bool:
        session = self._generation.inputs.session
        row = session.rows[0] if session is not None else None
        return row is not None and row.error is not None and row.on_error == "end"
