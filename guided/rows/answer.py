"""The answer of one row: from token ids to events and to the finished message.

`RowAnswer` is an answer while it is written, for loops that choose tokens; `read_answer` reads finished tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grammars.plan.plan import Plan, RowPlan
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.landing.control import RowLanding
from guided.output.answer_end import end_of_answer
from guided.output.message import Message, MessageBuilder, Usage
from guided.output.parser import (
    ContentDelta,
    Event,
    OutputParser,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallEnd,
)
from guided.output.stop_parser import EventParser, PlainParser, StopAwareParser
from guided.rows.alone import alone, completed, contained, made
from guided.rows.making import make_row
from guided.rows.sequence import OnError, RowSequence, matcher_of
from guided.rows.unguided import UnguidedSequence
from guided.state.entry import FRESH, Begin
from guided.state.mask import TokenMask
from guided.state.state import GuidanceState
from guided.stops.matcher import StopHit
from special_tokens.errors import GuidanceError, GuidedError

__all__ = ["RowAnswer", "parser_of", "read_answer"]


class RowAnswer:
    """The answer of one row while it is written.

    Tokens come in with `push` and `push_forced`; `read` returns the events that they make certain;
    `message` is the finished answer.  Stops are matched once, where tokens come in, and text is parsed once, when it
    is read.  Errors stay in the answer: no method raises what `contained` holds.  ``is_written``: the tokens are
    finished, and nothing is computed for a next one.
    """

    def __init__(
        self,
        plan: RowPlan,
        engine: Engine,
        *,
        begin: Begin = FRESH,
        number: int = 0,
        on_error: OnError = "end",
        prompt_tokens: int = 0,
        landing: RowLanding = RowLanding(),  # noqa: B008
        is_written: bool = False,
    ) -> None:
        self.plan = plan
        self.begin = begin
        self.number = number
        self.prompt_tokens = prompt_tokens
        #: the tokens written, the end included
        self.tokens: list[int] = []
        #: the indices of the tokens that came in with `push_forced`
        self.forced: list[int] = []
        self.sequence: RowSequence | UnguidedSequence | None = None
        if not is_written:
            self.sequence = make_row(plan, engine, begin=begin, on_error=on_error, number=number, landing=landing)
        self._engine = engine
        self._ends = plan.end_ids() if isinstance(plan, Plan) else frozenset(engine.tokens.end_ids)
        self._error: GuidedError | None = None  # from outside its guidance
        self._end: int | None = None  # the index of the token that ended the answer by its id
        #: None where it could not be made, and the answer has failed
        self._parser = made(self.fail, None, parser_of, plan, engine, begin, self.sequence)
        self._builder = MessageBuilder(plan if isinstance(plan, Plan) else None)
        self._num_read = 0
        self._num_calls = 0  # calls that ended before landing began
        self._is_finished = False

    @property
    def is_done(self) -> bool:
        """Whether the answer has ended, other than by a limit of tokens."""
        if self._error is not None or self._end is not None:
            return True
        return self.sequence is not None and self.sequence.is_done

    @property
    def error(self) -> GuidedError | None:
        """The error that ended the answer, or with which it went on without guidance."""
        return self._error or (self.sequence.error if self.sequence is not None else None)

    @property
    def landed(self) -> int | None:
        """The index of the first token that the budget chose; None before that."""
        return _landed(self.sequence)

    def token_mask(self) -> TokenMask | None:
        """Return the mask of the next token, good until the next one comes in; None where nothing is masked."""
        return self.sequence.token_mask() if isinstance(self.sequence, RowSequence) else None

    # -- tokens in

    def push(self, token: int) -> None:
        """Read a token that was chosen; the answer is not done."""
        sequence = self.sequence
        if sequence is not None:
            sequence.extend((token,))
            if sequence.has_failed:
                return  # a token that the grammar refuses is not part of the answer
        self.tokens.append(token)
        if token in self._ends:
            self._note_end()

    def push_forced(self, room: int) -> list[int]:
        """Read the tokens that are forced next, ``room`` at most, and return them."""
        sequence = self.sequence
        if not isinstance(sequence, RowSequence):
            return []
        run = sequence.forced_run(room)
        self.forced += range(len(self.tokens), len(self.tokens) + len(run))
        self.tokens += run
        if run and run[-1] in self._ends:
            self._note_end()
        return run

    def _note_end(self) -> None:
        """Note the newest token, which has the id of an end, as the end, unless the state of a guided row goes on."""
        sequence = self.sequence
        if isinstance(sequence, RowSequence) and sequence.error is None:
            stop = sequence.state.stop_reason
            if stop is None or stop.token_id is None:
                return
        elif sequence is not None and sequence.is_done:
            return  # a stop ended it
        self._end = len(self.tokens) - 1

    def fail(self, raised: BaseException) -> None:
        """End the answer with what was raised in it outside its guidance; the first error stays."""
        error = contained(raised, self.number, len(self.tokens))
        self._error = self._error or error

    # -- events out

    def read(self) -> list[Event]:
        """Return the events that the tokens since the last call make certain; text of a stop is held back.

        Text of one kind that is certain at once is one event.
        """
        return alone(self.fail, [], self._read)

    def _read(self) -> list[Event]:
        if self._parser is None:
            return []
        size = len(self.tokens) if self._end is None else self._end
        while size > self._num_read and self.tokens[size - 1] in self._ends:
            size -= 1  # it ends the answer unless the row goes on
        first, self._num_read = self._num_read, size  # what raises is not read again
        events, num_calls = _feed(self._parser, self.tokens[:size], first, _answer_landed(self.sequence))
        self._num_calls += num_calls
        events = _joined(events)
        self._builder.add(events)
        return events

    def partial(self) -> Any:
        """Return what is final of the response format's value so far, as ``message.partial``."""
        return alone(self.fail, None, self._builder.partial)

    def finish(self) -> list[Event]:
        """Return the last events: what was held back comes out.  Nothing may come in any more."""
        if self._is_finished:
            return []
        row = self.sequence if isinstance(self.sequence, RowSequence) else None
        if self._end is None and row is not None and self.tokens and alone(self.fail, False, _may_have_ended, row):
            self._end = len(self.tokens) - 1
        events = self.read()
        self._is_finished = True
        is_cut = self._end is None and (row is None or not row.state.is_stopped)
        return [*events, *alone(self.fail, [], self._last, is_cut)]

    def _last(self, is_cut: bool) -> list[Event]:
        events = self._parser.finish(is_cut=is_cut) if self._parser is not None else []
        self._builder.add(events)
        return events

    def message(self, usage: Usage | None = None) -> Message:
        """Return the finished answer; ``usage`` counts the work of the model that it took."""
        self.finish()
        usage = replace(usage or Usage(), prompt_tokens=self.prompt_tokens)
        unread, parser = self._builder.unread(usage, self.error, self.tokens), self._parser
        if parser is None:
            return replace(unread, finish_reason="error")
        return completed(unread, self.number, lambda _: self._whole(parser, usage))

    def _whole(self, parser: StopAwareParser, usage: Usage) -> Message:
        row = self.sequence if isinstance(self.sequence, RowSequence) else None
        hit, end, tokens = parser.hit, self._end, self.tokens
        if hit is not None:
            tokens = tokens[: hit.num_tokens]
        usage = replace(usage, completion_tokens=len(tokens), reasoning_tokens=parser.reasoning_tokens)
        message = self._builder.message(
            ended=hit is not None or end is not None or (row is not None and row.state.is_stopped),
            whole=hit is None or _is_whole(tokens, hit, self.plan, self._engine, self.begin),
            stop_reason=_reason(hit, self.plan, None if end is None else self.tokens[end], self._engine),
            usage=usage,
            guidance=self.sequence.guidance() if self.sequence is not None else Guidance(),
            error=self.error,
            freed=self._error is None and row is not None and not row.has_failed,
            token_ids=tuple(tokens),
            vocab_size=self._engine.tokens.facts.vocab_size,
            masked=row is not None and hit is None,
        )
        return _with_landing(message, row, self._num_calls)


def read_answer(
    tokens: Sequence[int],
    plan: RowPlan,
    engine: Engine,
    *,
    begin: Begin = FRESH,
    sequence: RowSequence | UnguidedSequence | None = None,
    prompt_tokens: int = 0,
    number: int = 0,
) -> Message:
    """Return the message of one row from the tokens after its prompt, padding included.

    Works without the sequence that wrote them (then counters are 0): the first end or the first stop ends the answer,
    whatever follows it (see `end_of_answer`).  ``number`` is the row's.
    """
    answer = RowAnswer(plan, engine, begin=begin, number=number, prompt_tokens=prompt_tokens, is_written=True)
    answer.sequence = sequence
    row = sequence if isinstance(sequence, RowSequence) else None
    stop = row.state.stop_reason if row is not None else None
    if row is not None and stop is not None and stop.token_id is not None and row.num_tokens <= len(tokens):
        end: int | None = row.num_tokens - 1
    else:  # the tokens that the state has read are known to be no ends
        num_known = row.num_tokens - alone(answer.fail, False, _may_have_ended, row) if row is not None else 0
        end = end_of_answer(tokens, plan, engine, first=num_known)
    body = tokens[:end]
    if row is not None and row.error is None and len(row.state.tokens) < len(body):
        body = tokens[: len(row.state.tokens)]
    if sequence is not None and sequence.has_failed:
        body, end = tokens[: sequence.num_tokens], None
    answer.tokens, answer._end = list(body), None
    if end is not None:
        answer.tokens, answer._end = [*body, tokens[end]], len(body)
    return answer.message()


def _landed(sequence: RowSequence | UnguidedSequence | None) -> int | None:
    """The index of the first token that the budget chose; None if it chose none."""
    row = sequence if isinstance(sequence, RowSequence) else None
    return row.landing.marks.begun if row is not None and row.landing is not None else None


def _answer_landed(sequence: RowSequence | UnguidedSequence | None) -> int | None:
    """The index of the first token that the budget chose after the reasoning; None if it chose none."""
    row = sequence if isinstance(sequence, RowSequence) else None
    return row.landing.marks.answer_begun if row is not None and row.landing is not None else None


def _feed(parser: StopAwareParser, tokens: Sequence[int], first: int, landed: int | None) -> tuple[list[Event], int]:
    """Feed the tokens from index ``first`` on; return the events, and the number of calls that end before landing."""
    cut = len(tokens) if landed is None else max(landed, first)
    events = parser.feed(tokens[first:cut])
    return events + parser.feed(tokens[cut:]), sum(isinstance(event, ToolCallEnd) for event in events)


def _with_landing(message: Message, row: RowSequence | None, num_calls: int) -> Message:
    """Return the message with the place at which its row began to land, and marks at the calls after ``num_calls``,
    if the budget chose more than the end of the reasoning.

    Notes say so where the answer was cut because no end was found, and name what the budget had no room for.
    """
    if row is not None and row.budget_note:
        return replace(message, notes=(*message.notes, row.budget_note))
    landing = row.landing if row is not None else None
    if landing is not None and landing.lost and len(message.token_ids) >= landing.max_tokens:
        message = replace(message, notes=(*message.notes, f"the answer was cut: {landing.lost}"))
    begun = _landed(row)
    if begun is None or begun >= len(message.token_ids):
        return message
    calls = message.tool_calls
    if _answer_landed(row) is not None:
        calls = (*calls[:num_calls], *(replace(call, landed=True) for call in calls[num_calls:]))
    notes = (*message.notes, *(landing.notes if landing is not None else ()))
    return replace(message, landed=begun, tool_calls=calls, notes=notes)


def _joined(events: Sequence[Event]) -> list[Event]:
    """Return the events with adjacent text of one kind as one."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(last, ContentDelta) and isinstance(event, ContentDelta):
            out[-1] = ContentDelta(last.text + event.text)
        elif isinstance(last, ReasoningDelta) and isinstance(event, ReasoningDelta):
            out[-1] = ReasoningDelta(last.text + event.text)
        elif isinstance(last, ToolCallArguments) and isinstance(event, ToolCallArguments) and last.index == event.index:
            out[-1] = ToolCallArguments(event.index, last.text + event.text)
        else:
            out.append(event)
    return out


def _may_have_ended(row: RowSequence) -> bool:
    """Whether the last token that the row has read is an end unless a call follows: a separator after text."""
    if row.error is not None or not row.num_tokens or row.state.tokens[-1] not in row.plan.end_ids():
        return False
    return row.state.is_accepting


def parser_of(
    plan: RowPlan, engine: Engine, begin: Begin = FRESH, row: RowSequence | UnguidedSequence | None = None
) -> StopAwareParser:
    """Return the reader of a row's answer: the parser of its plan or its reader, which gets the text up to a stop.

    ``row`` matches its stops itself.
    """
    parser: EventParser = PlainParser(engine)
    reader = plan if isinstance(plan, Plan) else begin.reader
    if reader is not None:
        hides = reader is not plan
        parser = OutputParser(
            reader, engine, entry=begin.entry, ends_at_marker=begin.ends_at_marker, hides_special=hides
        )
    matcher = row.stops if row is not None else matcher_of(plan, engine, begin)
    return StopAwareParser(parser, matcher, engine, is_shared=row is not None)


def _is_whole(tokens: Sequence[int], hit: StopHit, plan: RowPlan, engine: Engine, begin: Begin) -> bool:
    """Whether the text that a stop left is a whole answer: it keeps its stop, and could have ended there."""
    if not isinstance(plan, Plan) or not plan.stops.include or hit.until_bytes:
        return False
    state = GuidanceState(plan, engine, entry=begin.entry)
    try:
        state.commit(tokens)
        return state.is_accepting
    except GuidanceError:  # the row went on without guidance
        return False


def _reason(hit: StopHit | None, plan: RowPlan, end: int | None, engine: Engine) -> str | int | None:
    """Return the stop that ended the answer; an end of the turn counts if the request names it as a stop."""
    if hit is not None:
        return hit.reason
    stops = plan.stops if isinstance(plan, Plan) else plan
    if end is None or stops is None:
        return None
    if end in stops.ids:
        return end
    text = engine.tokens.added[end].text if end in engine.tokens.added else None
    return text if text in stops.strings else None
