"""The hooks that ``generate`` calls at every step: the logits processor and the stopping criterion of one session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, StoppingCriteria

from guided.hf.generate.landing import narrow
from guided.hf.generate.new_call import at_once
from guided.hf.generate.session import Session
from special_tokens.errors import PlanError

__all__ = ["GuidanceCriteria", "GuidanceProcessor", "OneSession", "SessionPerThread"]

_PAGED = "continuous batching (cache_implementation='paged', generate_batch) does not show the history of every row"


@dataclass(frozen=True)
class OneSession:
    """One session, shared by the hooks of kwargs that were bound to inputs: calls must follow one another."""

    session: Session


class SessionPerThread(threading.local):
    """One session per thread, shared by the hooks of unbound kwargs: calls in several threads may run at once."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self.session = make()


class _OfSession:
    """The base class of hooks: a hook stays with its session, so it can be neither deep-copied nor pickled."""

    def __init__(self, held: OneSession | SessionPerThread) -> None:
        self._held = held

    @property
    def session(self) -> Session:
        """The session of this thread."""
        return self._held.session

    def __reduce__(self) -> Any:
        """Raises `PlanError`."""
        raise PlanError(
            "a hook of a batch is copied deeply or sent away",
            place="batch",
            expected="one session for all that is done with it",
            hint="call guide.batch again; plans can be sent",
        )


class GuidanceProcessor(_OfSession, LogitsProcessor):
    """Masks the guided rows of ``scores`` and leaves all others as they are, to the bit."""

    supports_continuous_batching = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> Any:
        """Return ``scores`` float ``[rows, vocab]`` under the masks after ``input_ids`` int64 ``[rows, length]``.

        The result is a new tensor, or ``scores`` itself if the session is ``in_place``.  Raises `PlanError` for prompts
        that the session was not created for, for ids that are not its rows' histories, and if two calls run at once.
        """
        if input_ids.dim() != 2:
            raise PlanError(_PAGED, place="generate", hint="call generate without it")
        session = self.session
        lock = session.lock
        if not lock.acquire(False):
            raise at_once()
        try:
            if not session.read(input_ids, scores.shape[-1]):
                return scores
            if not scores.is_cpu:
                masks = session.masks()
                out = session.link(scores.device).apply(
                    scores, masks, session.is_done() if len(masks) < len(session.rows) else ()
                )
                return narrow(session.rows, out) if session.has_budgets else out
            masks = session.masks()
            if not masks:
                return scores
            out = session.host.apply(scores, masks, in_place=session.in_place)
            session.count(masks)
            return narrow(session.rows, out) if session.has_budgets else out
        finally:
            lock.release()

    def __repr__(self) -> str:
        return "GuidanceProcessor()"


class GuidanceCriteria(_OfSession, StoppingCriteria):
    """True for the guided rows that have ended.

    Because of the attribute ``eos_token_id``, ``generate`` pads rows that have ended while others go on.
    """

    def __init__(self, held: OneSession | SessionPerThread, eos_token_id: Sequence[int]) -> None:
        super().__init__(held)
        self.eos_token_id = list(eos_token_id)

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> Any:
        """Return which rows of ``input_ids`` int64 ``[rows, length]`` have ended, bool ``[rows]``.

        Raises `PlanError` if two calls run at once.
        """
        session = self.session
        lock = session.lock
        if not lock.acquire(False):
            raise at_once()
        try:
            return session.ended(input_ids)
        finally:
            lock.release()

    def __repr__(self) -> str:
        return f"GuidanceCriteria(eos_token_id={self.eos_token_id})"
