"""One of our rows as the grammar of a request in vLLM's scheduler."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from guided.bitmask import from_ids
from guided.engine.engine import Engine
from guided.rows.alone import row_error
from guided.rows.making import make_row
from guided.rows.report import RowReport
from guided.rows.sequence import RowSequence
from guided.state.entry import begin_of
from guided.state.mask import Words
from guided.vllm.sealed import report_text, unsealed
from special_tokens.errors import GuidanceError, GuidedError

__all__ = ["EngineRequest", "RowGrammar", "grammar_of"]

log = logging.getLogger("guided")


class EngineRequest(Protocol):
    """The part of vLLM's request that is used; by ``stop_reason`` alone a row can say something to the client."""

    request_id: str
    max_tokens: int
    prompt_token_ids: Sequence[int] | None
    sampling_params: Any
    stop_reason: int | str | None

    @property
    def num_output_tokens(self) -> int: ...
    def is_finished(self) -> bool: ...


class RowGrammar:
    """One row, with the methods of vLLM's `StructuredOutputGrammar`.

    None of them raises, which would end the engine: what fails ends the row at its next token.  ``row`` is None where
    it could not be made, for the reason ``error``.  ``number`` is the row's in its call.  Up to ``most_drafts`` forced
    tokens are offered as drafts.
    """

    def __init__(
        self,
        request: EngineRequest,
        engine: Engine,
        row: RowSequence | None = None,
        *,
        error: GuidedError | None = None,
        number: int = 0,
        most_drafts: int = 0,
    ) -> None:
        self._request = request
        self._number = number
        self._row = row
        self._error = error
        self._most_drafts = most_drafts
        ends = (row.plan.end_ids() if row is not None else ()) or engine.tokens.end_ids
        self._end = from_ids(ends, engine.vocab_size)  # the mask after the answer: vLLM stops at these
        self._num_read = 0  # drafts included

    @property
    def _open(self) -> RowSequence | None:
        """The row, if its answer goes on."""
        row = self._row
        return row if row is not None and self._error is None and row.is_guided else None

    # -- masks

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the mask of the next token to row ``batch_index`` of a tensor int32 ``[rows, words]``."""
        words = bitmask.numpy()[batch_index]  # twice as fast as the view of a row of the tensor
        try:
            mask = self._mask()
        except BaseException as error:
            self._fail(error)
            mask = self._end
        size = min(len(mask), len(words))  # either may hold padding of the model's logits
        words[:size] = mask[:size]
        words[size:] = 0

    def _mask(self) -> Words:
        row = self._open
        mask = row.token_mask() if row is not None else None
        return self._end if mask is None else mask.words

    def is_terminated(self) -> bool:
        """False, since vLLM would allow every token after it; after the end only an end is allowed."""
        return False

    # -- tokens

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Read tokens that were sampled, or drafts that are looked at; False ends the request with an error."""
        self._num_read += len(tokens)
        try:
            if self._row is not None and self._error is None:
                self._row.extend(tokens)
        except BaseException as error:
            self._fail(error)
        if self._request.num_output_tokens < self._num_read:
            return True  # drafts, which were validated: they are taken back, and a row that failed says so then
        failure = self._error or (self._row.error if self._row is not None else None)
        if failure is not None or self._request.is_finished():
            self._request.stop_reason = self._report(failure)
        if failure is not None:
            log.error("request %s: %s", request_id, failure)
        return failure is None

    def _report(self, failure: GuidedError | None) -> str:
        """Return what the reader has to know of the row; without its counters, if these cannot be had."""
        try:
            report = self._row.report() if self._row is not None else RowReport()
            return report_text(replace(report, error=failure))
        except Exception as error:
            return report_text(RowReport(error=failure or _failure(error, self._number, self._num_read)))

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the drafts that are looked at: the legal ones among ``tokens``, or a forced run that is longer."""
        row = self._open
        if row is None:
            return []
        try:
            legal = list(tokens[: row.validate(tokens)])
            forced = row.forced_run(self._most_drafts)
            row.rollback(len(forced))
            return forced if len(forced) > len(legal) else legal
        except BaseException as error:
            self._fail(error)
            return []

    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens, which were drafts."""
        self._num_read -= num_tokens
        try:
            if self._row is not None and self._error is None:
                self._row.rollback(num_tokens)
        except BaseException as error:
            self._fail(error)

    def reset(self) -> None:
        """Go back to the beginning."""
        self._num_read = 0
        if self._row is not None:
            self._row.restart()

    def _fail(self, raised: BaseException) -> None:
        self._error = self._error or _failure(raised, self._number, self._num_read)


def _failure(raised: BaseException, number: int, token: int) -> GuidedError:
    """Return the error of a row, also for a lack of memory: raised in the scheduler, it would end the engine."""
    try:
        return row_error(raised, number, token)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return GuidanceError(why, place=f"token {token}", hint=f"row {number}; the other rows go on")


def grammar_of(request: EngineRequest, engine: Engine, *, most_drafts: int = 0) -> RowGrammar:
    """Return the grammar of a request whose plan was checked; one that fails where its row cannot be made."""
    first, of_several, _ = request.request_id.partition("_")  # vLLM numbers the rows of one call
    number = int(first) if of_several and first.isdecimal() else 0
    try:
        plan, budget = unsealed(request.sampling_params.structured_outputs.grammar)
        row = make_row(
            plan,
            engine,
            begin=begin_of(plan, request.prompt_token_ids or (), engine),
            max_tokens=request.max_tokens,
            budget=budget,
            number=number,
            lands_in_masks=True,
        )
    except BaseException as raised:
        return RowGrammar(request, engine, error=_failure(raised, number, 0), number=number)
    if isinstance(row, RowSequence):
        return RowGrammar(request, engine, row, number=number, most_drafts=most_drafts)
    return RowGrammar(request, engine, error=row.error if row is not None else None, number=number)
