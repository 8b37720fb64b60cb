"""The answer of one row, read from token ids that anyone sampled: events as they come, then the message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from grammars.plan.plan import Plan, RowPlan
from guided.engine.engine import Engine
from guided.output.answer_end import AnswerEnds
from guided.output.message import Message, Usage
from guided.output.message_builder import MessageBuilder
from guided.output.parser import (
    ContentDelta,
    Event,
    OutputParser,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallEnd,
)
from guided.output.stop_parser import PlainParser, StopAwareParser
from guided.rows.alone import attempt, completed, row_error
from guided.rows.report import RowReport
from guided.rows.sequence import RowSequence, matcher_of
from guided.rows.unguided import UnguidedSequence
from guided.state.entry import FRESH, Begin
from guided.state.state import GuidanceState
from guided.stops.matcher import StopHit
from special_tokens.errors import GuidanceError, GuidedError

__all__ = ["AnswerReader", "parser_of"]


class AnswerReader:
    """The answer of one row, read from its tokens; the reader matches the stops, and does not check the grammar.

    `feed` takes the tokens after the prompt, in any portions, and returns the events that they make certain; `message`
    is the finished answer.  The first end or the first stop ends it, whatever follows.  Errors stay in the answer: no
    method raises what belongs to a row.  ``number`` is the row's in its call.
    """

    def __init__(
        self,
        plan: RowPlan,
        engine: Engine,
        *,
        begin: Begin = FRESH,
        number: int = 0,
        prompt_tokens: int = 0,
        row: RowSequence | UnguidedSequence | None = None,
    ) -> None:
        self.plan = plan
        self.begin = begin
        self.number = number
        self.prompt_tokens = prompt_tokens
        #: the tokens written up to the end or the stop, which is included
        self.tokens: list[int] = []
        self._engine = engine
        self._ends = AnswerEnds(plan, engine)
        self._error: GuidedError | None = None  # from outside its guidance
        self._end: int | None = None  # the index of the token that ended the answer by its id
        self._has_ended = False  # without such a token
        #: None where it could not be made, and the answer has failed
        self._parser: StopAwareParser | None = None
        try:
            self._parser = parser_of(plan, engine, begin, row)
        except GuidedError:
            raise  # the request is at fault
        except BaseException as error:
            self.fail(error)
        self._builder = MessageBuilder(plan if isinstance(plan, Plan) else None)
        self._num_read = 0
        self._call_ends: list[int] = []  # the number of tokens with which each call ended
        self._is_finished = False

    @property
    def is_done(self) -> bool:
        """Whether the answer has ended, other than by a limit of tokens."""
        return self._error is not None or self._end is not None or self._hit is not None

    @property
    def _hit(self) -> StopHit | None:
        return self._parser.hit if self._parser is not None else None

    def fail(self, raised: BaseException) -> None:
        """End the answer with what was raised in it outside its guidance; the first error stays."""
        error = row_error(raised, self.number, len(self.tokens))
        self._error = self._error or error

    def feed(self, tokens: Iterable[int]) -> list[Event]:
        """Read tokens that continue those read, and return the events that they make certain.

        What follows the end is padding.
        """
        if not (self.is_done or self._is_finished):
            self.tokens.extend(map(int, tokens))  # of an array, too
        return self.read()

    def read(self) -> list[Event]:
        """Return the events that the tokens since the last call make certain; text of a stop is held back.

        Text of one kind that is certain at once is one event.
        """
        return attempt(self.fail, [], self._read)

    def _read(self) -> list[Event]:
        if self._parser is None:
            return []
        size = self._num_certain()
        first, self._num_read = self._num_read, size  # what raises is not read again
        events: list[Event] = []
        for end in self._portions(first, size):
            new = self._parser.feed(self.tokens[first:end])
            self._call_ends += [end for event in new if isinstance(event, ToolCallEnd)]
            events += new
            first = end
        if self._hit is not None:
            del self.tokens[self._hit.num_tokens :]
        events = _joined(events)
        self._builder.add(events)
        return events

    def _num_certain(self) -> int:
        """Return the number of tokens that are certainly text; the end is noted as soon as it is certain."""
        if self._end is None:
            at, is_end = self._ends.find(self.tokens, self._num_read)
            if at is None:
                return len(self.tokens)
            if not is_end and not (self._is_finished and at == len(self.tokens) - 1):
                return len(self.tokens) if self._is_finished else at
            self._end = at
            del self.tokens[at + 1 :]
        return self._end

    def _portions(self, first: int, size: int) -> Iterable[int]:
        """Yield the ends of the portions in which the tokens ``first`` to ``size`` are parsed."""
        return range(first + 1, size + 1)

    def partial(self) -> Any:
        """Return what is final of the response format's value so far, as ``message.partial``."""
        return attempt(self.fail, None, self._builder.partial)

    def finish(self, reason: Literal["stop", "length"] | None = None) -> list[Event]:
        """Return the last events: what was held back comes out.  Nothing may come in any more.

        ``reason`` is why the sampler ended: with ``stop`` the answer is whole though no end is among its tokens.
        """
        if self._is_finished:
            return []
        self._is_finished, self._has_ended = True, reason == "stop"
        events = self.read()
        return [*events, *attempt(self.fail, [], self._last, self._end is None and not self._has_ended)]

    def _last(self, is_cut: bool) -> list[Event]:
        events = self._parser.finish(is_cut=is_cut) if self._parser is not None else []
        self._builder.add(events)
        return events

    def message(self, usage: Usage | None = None, report: RowReport | None = None) -> Message:
        """Return the finished answer.

        ``usage`` counts the work of the model that it took, and ``report`` is of the row whose masks chose its tokens.
        """
        self.finish()
        usage = replace(usage or Usage(), prompt_tokens=self.prompt_tokens)
        report = report or self._report()
        unread, parser = self._builder.unread(usage, self._error or report.error, self.tokens), self._parser
        if parser is None:
            return replace(unread, finish_reason="error")
        return completed(unread, self.number, lambda _: self._whole(parser, usage, report))

    def _report(self) -> RowReport:
        return RowReport()

    def _whole(self, parser: StopAwareParser, usage: Usage, report: RowReport) -> Message:
        hit, end, tokens = parser.hit, self._end, self.tokens
        usage = replace(usage, completion_tokens=len(tokens), reasoning_tokens=parser.reasoning_tokens)
        message = self._builder.message(
            ended=hit is not None or end is not None or self._has_ended,
            whole=hit is None or _is_whole(tokens, hit, self.plan, self._engine, self.begin),
            stop_reason=_reason(hit, self.plan, None if hit or end is None else tokens[end], self._engine),
            usage=usage,
            guidance=report.guidance,
            error=self._error or report.error,
            freed=self._error is None and report.is_freed,
            token_ids=tuple(tokens),
            vocab_size=self._engine.tokens.facts.vocab_size,
            masked=report.guidance.applied and hit is None,
        )
        return _with_report(message, report, self._call_ends)


def _with_report(message: Message, report: RowReport, call_ends: Sequence[int]) -> Message:
    """Return the message with the place at which its row began to land, and marks at the calls that ended after it,
    if the budget chose more than the end of the reasoning.
    """
    marks, notes, calls = report.marks, (*message.notes, *report.notes), message.tool_calls
    if marks.begun is None or marks.begun >= len(message.token_ids):
        return replace(message, notes=notes)
    if marks.answer_begun is not None:
        num_calls = sum(end <= marks.answer_begun for end in call_ends)
        calls = (*calls[:num_calls], *(replace(call, landed=True) for call in calls[num_calls:]))
    return replace(message, landed=marks.begun, tool_calls=calls, notes=(*notes, *marks.notes))


_TEXTS = (ContentDelta, ReasoningDelta, ToolCallArguments)


def _joined(events: Sequence[Event]) -> list[Event]:
    """Return the events with adjacent text of one kind as one."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(last, _TEXTS) and isinstance(event, _TEXTS) and replace(last, text=event.text) == event:
            out[-1] = replace(last, text=last.text + event.text)
        else:
            out.append(event)
    return out


def parser_of(
    plan: RowPlan, engine: Engine, begin: Begin = FRESH, row: RowSequence | UnguidedSequence | None = None
) -> StopAwareParser:
    """Return the reader of a row's answer: the parser of its plan or its reader, which gets the text up to a stop.

    ``row`` matches its stops itself.
    """
    parser: OutputParser | PlainParser = PlainParser(engine)
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
