"""The answer of one row while it is written, and the message of an answer whose tokens are complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from grammars.plan.plan import RowPlan
from guided.engine.engine import Engine
from guided.landing.control import Marks
from guided.landing.options import Budgeting
from guided.output.answer_end import end_of_answer
from guided.output.message import Message
from guided.output.parser import Event
from guided.rows.alone import attempt
from guided.rows.making import make_row
from guided.rows.reader import AnswerReader
from guided.rows.report import RowReport
from guided.rows.sequence import OnError, RowSequence
from guided.rows.unguided import UnguidedSequence
from guided.state.entry import FRESH, Begin
from guided.state.mask import TokenMask
from special_tokens.errors import GuidedError

__all__ = ["RowAnswer", "read_answer"]


class RowAnswer(AnswerReader):
    """The answer of one row while it is written, with the row that guides it, for loops that choose tokens.

    Tokens come in with `push` and `push_forced`.  Stops are matched once, where tokens come in, and text is parsed
    once, when it is read.  ``max_tokens`` and ``budget`` are as in `make_row`.
    """

    def __init__(
        self,
        plan: RowPlan,
        engine: Engine,
        *,
        begin: Begin = FRESH,
        max_tokens: int | None = None,
        budget: Budgeting | None = None,
        number: int = 0,
        on_error: OnError = "end",
        prompt_tokens: int = 0,
    ) -> None:
        self.sequence = make_row(
            plan, engine, begin=begin, max_tokens=max_tokens, budget=budget, number=number, on_error=on_error
        )
        super().__init__(plan, engine, begin=begin, number=number, prompt_tokens=prompt_tokens, row=self.sequence)
        #: the indices of the tokens that came in with `push_forced`
        self.forced: list[int] = []

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
        return self._marks.begun

    @property
    def _marks(self) -> Marks:
        landing = self.sequence.landing if self.sequence is not None else None
        return landing.marks if landing is not None else Marks()

    def token_mask(self) -> TokenMask | None:
        """Return the mask of the next token, good until the next one comes in; None where nothing is masked."""
        return self.sequence.token_mask() if self.sequence is not None else None

    def push(self, token: int) -> None:
        """Read a token that was chosen; the answer is not done."""
        sequence = self.sequence
        if sequence is not None:
            sequence.extend((token,))
            if sequence.has_failed:
                return  # a token that the grammar refuses is not part of the answer
        self.tokens.append(token)
        if token in self._ends.ids:
            self._note_end()

    def push_forced(self, room: int) -> list[int]:
        """Read the tokens that are forced next, ``room`` at most, and return them."""
        run = self.sequence.forced_run(room) if self.sequence is not None else []
        self.forced += range(len(self.tokens), len(self.tokens) + len(run))
        self.tokens += run
        if run and run[-1] in self._ends.ids:
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

    def _num_certain(self) -> int:
        size = len(self.tokens) if self._end is None else self._end
        while size > self._num_read and self.tokens[size - 1] in self._ends.ids:
            size -= 1  # it ends the answer unless the row goes on
        return size

    def _portions(self, first: int, size: int) -> Iterable[int]:
        landed = self._marks.answer_begun  # a call that ends there is not landed
        return (size,) if landed is None else (min(max(landed, first), size), size)

    def finish(self, reason: Literal["stop", "length"] | None = None) -> list[Event]:
        """Return the last events: what was held back comes out.  Nothing may come in any more."""
        row = self.sequence if isinstance(self.sequence, RowSequence) else None
        if self._end is None and row is not None and self.tokens and attempt(self.fail, False, _may_have_ended, row):
            self._end = len(self.tokens) - 1
        return super().finish("stop" if row is not None and row.state.is_stopped else reason)

    def _report(self) -> RowReport:
        return self.sequence.report() if self.sequence is not None else RowReport()


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
    answer = AnswerReader(plan, engine, begin=begin, number=number, prompt_tokens=prompt_tokens)
    if sequence is None:
        answer.feed(tokens)
        return answer.message()
    row = sequence if isinstance(sequence, RowSequence) else None
    stop = row.state.stop_reason if row is not None else None
    if row is not None and stop is not None and stop.token_id is not None and row.num_tokens <= len(tokens):
        end: int | None = row.num_tokens - 1
    else:  # the tokens that the state has read are known to be no ends
        num_known = row.num_tokens - attempt(answer.fail, False, _may_have_ended, row) if row is not None else 0
        end = end_of_answer(tokens, plan, engine, first=num_known)
    body = tokens[:end]
    if row is not None and row.error is None and len(row.state.tokens) < len(body):
        body = tokens[: len(row.state.tokens)]
    if sequence.has_failed:
        body, end = tokens[: sequence.num_tokens], None
    answer.tokens, answer._end = list(body), None
    if end is not None:
        answer.tokens, answer._end = [*body, tokens[end]], len(body)
    answer.finish("stop" if row is not None and row.state.is_stopped else None)
    return answer.message(report=sequence.report())


def _may_have_ended(row: RowSequence) -> bool:
    """Whether the last token that the row has read is an end unless a call follows: a separator after text."""
    if row.error is not None or not row.num_tokens or row.state.tokens[-1] not in row.plan.end_ids():
        return False
    return row.state.is_accepting
