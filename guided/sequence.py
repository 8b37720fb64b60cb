"""One row of a batch: its guidance, what failed, and the message in the end.

A row without a plan has no state at all and costs nothing per step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from grammars.plan import Plan, Stops
from guided.binding import FRESH, Begin
from guided.compile import Engine
from guided.free import FreeSequence
from guided.message import Guidance, Message, MessageBuilder, Usage
from guided.parse import OutputParser
from guided.regions import RegionMap
from guided.state import GuidanceState
from guided.stop import StopHit, StopMatcher, compile_stops
from guided.stopped import Parser, PlainParser, StoppedParser
from special_tokens.errors import GuidanceError, GuidedError

__all__ = ["OnError", "RowPlan", "RowSequence", "parser_of", "read_answer"]

log = logging.getLogger("guided")

#: ``end``: the row ends with ``finish_reason="error"``; ``unconstrained``: it goes on without guidance, marked.
OnError = Literal["end", "unconstrained"]

#: What a row may have: a plan, stops alone (its logits stay untouched), or nothing.
RowPlan: TypeAlias = Plan | Stops | None


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
        self.stops = _matcher(plan, engine, begin)
        self.on_error = on_error
        self.error: GuidedError | None = None
        self.overridden = 0
        self.forced = 0

    @property
    def is_done(self) -> bool:
        """Nothing more is to be written in this row."""
        if self.stops is not None and self.stops.is_stopped:
            return True
        return self.state.is_stopped or (self.error is not None and self.on_error == "end")

    @property
    def is_guided(self) -> bool:
        """Does the row still need masks?"""
        return self.error is None and not self.is_done

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
            if self.stops is not None and self.on_error == "unconstrained":
                self.stops.sync(generated)
            return
        state = self.state
        committed = state.tokens
        same = len(committed)
        if list(generated[:same]) != list(committed):
            same = next(i for i, t in enumerate(committed) if i >= len(generated) or generated[i] != t)
            state.rollback(len(committed) - same)
            if self.stops is not None:
                self.stops.rollback(max(0, self.stops.num_tokens - same))
        try:
            for token in generated[same:]:
                if self.is_done:
                    return  # padding after the end
                state.commit([token])
                if self.stops is not None and not state.is_stopped:
                    self.stops.push(token)
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
        if self.stops is not None:
            self.stops.reset()
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
    plan: RowPlan,
    engine: Engine,
    *,
    begin: Begin = FRESH,
    sequence: RowSequence | FreeSequence | None = None,
    prompt_tokens: int = 0,
    error: GuidedError | None = None,
) -> Message:
    """The message of one row from the tokens after its prompt, padding included.

    Works without the sequence that wrote them (then counters are empty): the first end token or the first stop ends
    the answer, whatever was written behind it.  ``error`` is what ended the row from outside its guidance.
    """
    row = sequence if isinstance(sequence, RowSequence) else None
    ends = plan.end_ids() if isinstance(plan, Plan) else frozenset(engine.tokens.end_ids)
    cut = next((i for i, token in enumerate(tokens) if token in ends), None)
    body = tokens[:cut]
    if row is not None and row.error is None and len(row.state.tokens) < len(body):
        body = tokens[: len(row.state.tokens)]
    if row is not None and row.error is not None and row.on_error == "end":
        body, cut = tokens[: len(row.state.tokens)], None
    builder = MessageBuilder(plan if isinstance(plan, Plan) else None)
    parser = parser_of(plan, engine, begin)
    builder.add(parser.feed(body))
    builder.add(parser.finish())
    hit = parser.hit
    num_completion = hit.num_tokens if hit is not None else len(body) + (cut is not None)
    return builder.message(
        ended=hit is not None or cut is not None or (row is not None and row.state.is_stopped),
        stopped=hit is not None,
        stop_reason=_reason(hit, plan, tokens[cut] if cut is not None else None, engine),
        usage=Usage(prompt_tokens, num_completion, parser.reasoning_tokens),
        guidance=sequence.guidance() if sequence is not None else Guidance(),
        error=error or (sequence.error if sequence is not None else None),
        token_ids=tuple(tokens[:num_completion]),
    )


def parser_of(plan: RowPlan, engine: Engine, begin: Begin = FRESH) -> StoppedParser:
    """What reads the answer of a row: its plan's parser, behind its stops."""
    parser: Parser = PlainParser(engine)
    if isinstance(plan, Plan):
        parser = OutputParser(plan, engine, entry=begin.entry, opened=begin.opened)
    return StoppedParser(parser, _matcher(plan, engine, begin), engine)


def _matcher(plan: RowPlan, engine: Engine, begin: Begin) -> StopMatcher | None:
    stops = plan.stops if isinstance(plan, Plan) else plan
    if not stops:
        return None
    automaton = compile_stops(stops, engine, plan if isinstance(plan, Plan) else None)
    return StopMatcher(automaton, entry=begin.entry)


def _reason(hit: StopHit | None, plan: RowPlan, end: int | None, engine: Engine) -> str | int | None:
    """Which stop ended the answer; an end of the turn counts where the request names it as a stop."""
    if hit is not None:
        return hit.reason
    stops = plan.stops if isinstance(plan, Plan) else plan
    if end is None or stops is None:
        return None
    if end in stops.ids:
        return end
    text = engine.tokens.added[end].text if end in engine.tokens.added else None
    return text if text in stops.strings else None
