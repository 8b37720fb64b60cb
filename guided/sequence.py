"""One row of a batch: its guidance, what failed, and the message in the end.

A row without a plan has no state at all and costs nothing per step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grammars.plan import Plan
from guided.binding import FRESH, Begin
from guided.compile import Engine
from guided.message import Guidance, Message, MessageBuilder, Usage
from guided.parse import ContentDelta, Event, OutputParser
from guided.regions import RegionMap
from guided.state import GuidanceState
from special_tokens.errors import GuidanceError, GuidedError

__all__ = ["OnError", "RowSequence", "read_answer"]

log = logging.getLogger("guided")

#: ``end``: the row ends with ``finish_reason="error"``; ``unconstrained``: it goes on without guidance, marked.
OnError = Literal["end", "unconstrained"]


class RowSequence:
    """The guidance of one row.  Errors stay in the row: nothing here raises for what the engine does."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        *,
        begin: Begin = FRESH,
        regions: RegionMap | None = None,
        on_error: OnError = "end",
        row: int = 0,
    ) -> None:
        self.plan = plan
        self.begin = begin
        self.row = row
        self.state = GuidanceState(plan, engine, entry=begin.entry, regions=regions)
        self.on_error = on_error
        self.error: GuidedError | None = None
        self.overridden = 0
        self.forced = 0

    @property
    def is_done(self) -> bool:
        """Nothing more is to be written in this row."""
        return self.state.is_stopped or (self.error is not None and self.on_error == "end")

    @property
    def is_guided(self) -> bool:
        """Does the row still need masks?"""
        return self.error is None and not self.state.is_stopped

    def fill_bitmask(self, bitmask: NDArray[np.int32], row: int) -> bool:
        """Write this row's mask; False where there is none (the row is done, free or has failed)."""
        if not self.is_guided:
            return False
        try:
            self.state.fill_bitmask(bitmask, row)
        except GuidanceError as error:
            self._fail(error)
            return False
        return True

    def sync(self, generated: Sequence[int]) -> None:
        """Bring the state to ``generated``, the tokens after the prompt: undo what differs, commit what is new."""
        if self.error is not None:
            return
        state = self.state
        committed = state.tokens
        same = len(committed)
        if list(generated[:same]) != list(committed):
            same = next(
                i for i, t in enumerate(committed) if i >= len(generated) or generated[i] != t
            )
            state.rollback(len(committed) - same)
        try:
            for token in generated[same:]:
                if state.is_stopped:
                    return  # padding after the end
                state.commit([token])
        except GuidanceError as error:
            self._fail(error)

    def _fail(self, error: GuidanceError) -> None:
        error.hint = error.hint or f"row {self.row}; the other rows are not touched"
        self.error = error
        if self.on_error == "unconstrained":
            log.warning("row %d goes on without guidance: %s", self.row, error)

    def restart(self) -> None:
        """Back to the beginning, as if nothing had been written."""
        self.state.reset()
        self.error = None
        self.overridden = self.forced = 0

    def guidance(self) -> Guidance:
        """The row's counters."""
        counters = self.state.counters
        return Guidance(
            applied=self.error is None,
            masks=counters.masks,
            commits=counters.commits,
            overridden=self.overridden,
            forced=self.forced,
            rollbacks=counters.rollbacks,
            repairs=counters.repairs,
            reasoning_applied=self.plan.reasoning.applied and self.begin.entry != "after",
        )


def read_answer(
    tokens: Sequence[int],
    plan: Plan | None,
    engine: Engine,
    *,
    begin: Begin = FRESH,
    sequence: RowSequence | None = None,
    prompt_tokens: int = 0,
    on_event: Callable[[Event], None] | None = None,
) -> Message:
    """The message of one row from the tokens after its prompt, padding included.

    Works without the sequence that wrote them (then counters are empty): the first end token ends the answer.
    """
    ends = plan.end_ids() if plan is not None else frozenset(engine.tokens.end_ids)
    cut = next((i for i, token in enumerate(tokens) if token in ends), None)
    body = tokens[:cut]
    complete = sequence is not None and sequence.state.is_stopped
    if sequence is not None and sequence.error is None and len(sequence.state.tokens) < len(body):
        body = tokens[: len(sequence.state.tokens)]
    if sequence is not None and sequence.error is not None and sequence.on_error == "end":
        body, cut = tokens[: len(sequence.state.tokens)], None
    builder = MessageBuilder(plan)
    reasoning_tokens = 0
    if plan is not None:
        parser = OutputParser(plan, engine, entry=begin.entry, opened=begin.opened)
        builder.add(parser.feed(body))
        builder.add(parser.finish())
        reasoning_tokens = parser.reasoning_tokens
    else:
        builder.add([ContentDelta(b"".join(_visible(body, engine)).decode("utf-8", "replace"))])
    num_completion = len(body) + (cut is not None)
    return builder.message(
        ended=cut is not None or complete,
        usage=Usage(prompt_tokens, num_completion, reasoning_tokens),
        guidance=sequence.guidance() if sequence is not None else Guidance(),
        error=sequence.error if sequence is not None else None,
        token_ids=tuple(tokens[:num_completion]),
    )


def _visible(tokens: Sequence[int], engine: Engine) -> Iterator[bytes]:
    special = {token.id for token in engine.tokens.added.values() if token.special}
    return (engine.token_bytes(token) for token in tokens if token not in special)
