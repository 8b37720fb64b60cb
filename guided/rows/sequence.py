"""One guided row of a batch: the state of its guidance, its stops, its error and its counters.

A row without a plan has no state at all and costs nothing per step.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from typing import Literal, get_args

from grammars.plan.plan import Plan, RowPlan
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.landing.control import Marks, RowLanding
from guided.landing.effort import Effort
from guided.landing.mask_landing import MaskLanding
from guided.rows.alone import attempt, row_error
from guided.rows.report import RowReport
from guided.state.entry import FRESH, Begin
from guided.state.mask import TokenMask
from guided.state.state import GuidanceState
from guided.stops.compiled import CompiledStops
from guided.stops.matcher import StopMatcher
from special_tokens.errors import GuidanceError, GuidedError, LimitExceeded, RequestError, TokenRefused

__all__ = ["OnError", "RowSequence", "check_on_error", "matcher_of"]

log = logging.getLogger("guided")

#: ``end``: the row ends with ``finish_reason="error"``; ``unconstrained``: it goes on without guidance, marked.
OnError = Literal["end", "unconstrained"]


def check_on_error(value: object) -> None:
    """Raise `RequestError` for a value that is not an `OnError`: a misspelt one must not end the guidance of a row."""
    if value not in get_args(OnError):
        raise RequestError(f"{value!r} is unknown", place="on_error", expected=" or ".join(get_args(OnError)))


class RowSequence:
    """The guidance of one row.  Errors stay in the row: no method raises what belongs to a row.

    A row may be rolled back to any earlier position; an error after that position is then forgotten.  ``max_rollbacks``
    ends a row that is rolled back more often (None: no limit).  ``landing`` keeps the path to the end of the
    answer within its budget; the loop asks it at each step, see `is_landing`.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        *,
        begin: Begin = FRESH,
        on_error: OnError = "end",
        max_rollbacks: int | None = None,
        row: int = 0,
        landing: RowLanding = RowLanding(),  # noqa: B008
    ) -> None:
        check_on_error(on_error)
        self.plan = plan
        self.begin = begin
        self.row = row
        self.state = GuidanceState(plan, engine, entry=begin.entry)
        self.stops = matcher_of(plan, engine, begin)
        #: the ids that are open at each position alone decide where the row ends
        self.ends_by_id = self.stops is None and bool(plan.end_ids())
        self.on_error = on_error
        self.max_rollbacks = max_rollbacks
        self.landing, self.budget_note = landing
        self.error: GuidedError | None = None
        self.overridden = 0
        self.rescued = 0
        self._refused: int | None = None  # the token whose refusal is the error
        self._final: GuidedError | None = None  # an error that ends the row whatever ``on_error`` says

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be written in this row; read several times a step."""
        stops = self.stops
        if stops is not None and stops.is_stopped:
            return True
        return self.state.is_stopped or (self.error is not None and self.has_failed)

    @property
    def is_guided(self) -> bool:
        """Whether the row still needs masks."""
        return self.error is None and not self.is_done

    @property
    def has_failed(self) -> bool:
        """Whether the row has ended because of an error."""
        return self.error is not None and (self.on_error == "end" or self.error is self._final)

    def token_mask(self) -> TokenMask | None:
        """Return this row's mask and the ids that would end it here; None if it is done, unguided or has failed.

        Read only, and good until the row goes on: see `GuidanceState.mask`.
        """
        state = self.state
        if self.error is not None or state.is_stopped or (self.stops is not None and self.stops.is_stopped):
            return None
        try:
            mask, landing = state.token_mask(), self.landing
            return landing.narrowed(state, mask) if isinstance(landing, MaskLanding) else mask
        except BaseException as error:
            self._fail(error)
            return None

    def is_landing(self) -> bool:
        """Whether the next token must be one that `lands`: the budget may not hold what another makes necessary."""
        if self.landing is None or not self.is_guided:
            return False
        return attempt(self._fail, False, self.landing.is_near, self.state)

    def lands(self, token: int, effort: Effort, *, is_own: bool = True) -> bool:
        """Whether the answer can still end within its budget after ``token``; see `LandingControl.allows`."""
        return self.landing is None or self.landing.allows(self.state, token, effort, is_own=is_own)

    def landing_token(self) -> int | None:
        """Return the token that leads to the nearest end known, None where there is no such token."""
        return self.landing.next_token(self.state) if self.landing is not None else None

    def note_landing(self, refused: int) -> None:
        """Note that the budget decides about the next token, where the model's own is ``refused``."""
        if self.landing is not None:
            self.landing.note(self.state, refused)

    def ends_with(self, token: int) -> bool:
        """Whether nothing more would be written after ``token``.  True as well for a token that the mask forbids."""
        if self.is_done:
            return True
        try:
            if self.error is None and (not self.state.allows(token) or token in self.state.open_end_ids()):
                return True
        except BaseException as error:
            row_error(error, self.row, self.num_tokens)
            return True
        if self.error is None and self.ends_by_id:
            return False
        twin = self.fork()
        twin.extend([token])
        return twin.is_done

    # -- following the tokens

    @property
    def num_tokens(self) -> int:
        """Number of tokens read so far; those after an end are not read."""
        return self.state.num_tokens

    def num_common(self, generated: Sequence[int]) -> int:
        """Return the length of the common prefix of ``generated`` and the tokens read."""
        return self.state.num_common(generated)

    def extend(self, tokens: Sequence[int]) -> None:
        """Read ``tokens``, which continue the tokens read; those after the end are padding."""
        for i, token in enumerate(tokens):
            if self.error is None and not self.is_done:
                self._commit(token)
            if self.error is not None:
                if self.stops is not None and not self.is_done:
                    # The row goes on without guidance, its stops stay.
                    attempt(self.fail, None, self.stops.feed, tokens[i:])
                return

    def _commit(self, token: int, *, forced: bool = False) -> None:
        try:
            if forced:
                self.state.commit_forced(token)
            else:
                self.state.commit((token,))  # of a tensor, too
        except BaseException as error:
            self._fail(error, token)
            return
        if self.stops is not None and not self.state.is_stopped:
            attempt(self.fail, None, self.stops.push, token, self.state.log.last_move)

    def forced_run(self, room: int) -> list[int]:
        """Commit the tokens that are forced from here on, ``room`` at most, and return them.

        The run ends where there is a choice, where the row ends, and where the engine fails, which ends the row.
        """
        out: list[int] = []
        while len(out) < room and self.is_guided:
            token = attempt(self._fail, None, self.state.forced_next)
            if token is None:
                break
            self._commit(token, forced=True)
            if self.error is None:
                out.append(token)
        return out

    def validate(self, tokens: Sequence[int]) -> int:
        """Return how many of ``tokens`` could be read one after the other, the one that ends the row included."""
        if not self.is_guided:
            return 0
        num = attempt(self._fail, 0, self.state.validate, tokens)
        if self.stops is None:
            return num
        hit = attempt(self.fail, None, self.stops.fork().feed, tokens[:num])
        return num if hit is None else hit.num_tokens - self.stops.num_tokens

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` tokens read; an error after the position that remains is forgotten.

        A host counts by `num_tokens`: the row does not read what comes after its end or its error.  Raises
        `GuidanceError` where fewer were read.
        """
        if not 0 <= num_tokens <= self.num_tokens:
            raise GuidanceError(f"cannot undo {num_tokens} of {self.num_tokens} tokens", place="rollback")
        size = self.num_tokens - num_tokens
        if self.error is not None:
            self.sync(self.state.tokens[:size])
        else:
            self._rollback(size)

    def sync(self, generated: Sequence[int]) -> None:
        """Bring the row to ``generated``, the tokens after the prompt: undo what differs, commit what is new."""
        same = self.num_common(generated)
        if self.error is not None:
            if self._holds(generated, same):
                if self.stops is not None and self.on_error == "unconstrained":
                    attempt(self.fail, None, self.stops.sync, generated)
                return
            if self.error.__cause__ is not None:  # where it was raised, the state may be half changed
                self.restart()
                same = 0
            self.error = self._refused = None
        self._rollback(same)
        self.extend(generated[same:])

    def is_at(self, generated: Sequence[int]) -> bool:
        """Whether the row has read exactly ``generated``; padding after an end does not count."""
        same = self.num_common(generated)
        if self.error is not None:
            return self._holds(generated, same)
        return same == self.num_tokens and (self.is_done or same == len(generated))

    def before_padding(self, generated: Sequence[int], pads: Collection[int]) -> RowSequence | None:
        """Return the row as it was before its padding, if a loop ended it and then padded it with one of ``pads``.

        None if all tokens of ``generated`` are the row's own.  A loop that ends a row by a stop of its own pads it, and
        the grammar refuses the padding; that is not a failure of the row.
        """
        size = self.num_tokens
        if self._refused not in pads or not size or any(token != self._refused for token in generated[size:]):
            return None
        ended = copy(self)
        ended.error = ended._refused = None
        return ended

    def _holds(self, generated: Sequence[int], same: int) -> bool:
        """Whether the error lies on the way to ``generated``."""
        if same < self.num_tokens:
            return False
        return self._refused is None or (len(generated) > same and generated[same] == self._refused)

    def _rollback(self, size: int) -> None:
        """Undo the tokens after the first ``size``."""
        try:
            if self.stops is not None:
                self.stops.rollback(max(0, self.stops.num_tokens - size))
            self.state.rollback(self.num_tokens - size)
            if self.landing is not None:
                self.landing.rolled_back(self.num_tokens)
            if self.max_rollbacks is not None and self.state.counters.rollbacks > self.max_rollbacks:
                raise LimitExceeded(
                    f"the row was taken back {self.state.counters.rollbacks} times",
                    place=f"token {self.num_tokens}",
                    expected=f"at most {self.max_rollbacks} times (max_rollbacks)",
                )
        except BaseException as error:
            self._fail(error)

    def fail(self, raised: BaseException) -> None:
        """End the row with what was raised outside, whatever ``on_error`` says; the error that ended it stays."""
        error = row_error(raised, self.row, self.num_tokens)
        if not self.has_failed:
            self.error = self._final = error

    def _fail(self, raised: BaseException, refused: int | None = None) -> None:
        error = row_error(raised, self.row, self.num_tokens)
        where = f"row {self.row}; the other rows are not touched"
        if where not in (error.hint or ""):
            error.hint = f"{error.hint}; {where}" if error.hint else where
        self.error = error
        self._refused = refused if isinstance(error, TokenRefused) else None
        # Searches and drafts try tokens that are refused all the time; that is not a failure.
        if self.on_error == "unconstrained" and self._refused is None:
            log.warning("row %d goes on without guidance, unless this is taken back: %s", self.row, error)

    def fork(self) -> RowSequence:
        """Return an independent copy at the same position."""
        twin = copy(self)
        twin.state = self.state.fork()
        twin.stops = self.stops.fork() if self.stops is not None else None
        twin.landing = self.landing.fork() if self.landing is not None else None
        return twin

    def restart(self) -> None:
        """Go back to the beginning, as if nothing had been written."""
        self.state.reset()
        if self.stops is not None:
            self.stops.reset()
        if self.landing is not None:
            self.landing.restart()
        self.error = self._refused = None
        self.overridden = self.rescued = 0

    def guidance(self) -> Guidance:
        """Return a copy of the row's counters."""
        return replace(
            self.state.counters,
            applied=self.error is None,
            overridden=self.overridden,
            rescued=self.rescued,
            reasoning_applied=self.plan.reasoning.applied and self.begin.entry != "after",
        )

    def report(self) -> RowReport:
        """Return what the row knows of its answer besides the tokens."""
        landing, notes = self.landing, (self.budget_note,) if self.budget_note else ()
        if landing is not None:
            is_cut = landing.lost and self.num_tokens >= landing.max_tokens
            notes = (*landing.notes, *((f"the answer was cut: {landing.lost}",) if is_cut else ()))
        is_freed = self.error is not None and not self.has_failed
        return RowReport(
            self.guidance(), self.error, is_freed, landing.marks if landing is not None else Marks(), notes
        )


def matcher_of(plan: RowPlan, engine: Engine, begin: Begin = FRESH) -> StopMatcher | None:
    """Return a matcher of the row's stops; None if it has none."""
    stops = plan.stops if isinstance(plan, Plan) else plan
    if not stops:
        return None
    compiled = CompiledStops(stops, engine, plan if isinstance(plan, Plan) else None)
    return StopMatcher(compiled, entry=begin.entry)
