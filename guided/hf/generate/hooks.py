"""The hooks that ``generate`` calls at every step: the logits processor and the stopping criterion of one session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, StoppingCriteria

from guided.hf.generate.new_call import at_once
from guided.hf.generate.session import Session
from special_tokens.errors import PlanError

__all__ = ["GuidanceCriteria", "GuidanceProcessor", "OneSession", "SessionPerThread"]

_PAGED = (
    "guidance needs the history of every row, which continuous batching (cache_implementation='paged', "
    "generate_batch) does not show; call generate without it"
)


@dataclass(frozen=True)
class OneSession:
    """Shared by the hooks of bound kwargs: one session, for one call after the other."""

    session: Session


class SessionPerThread(threading.local):
    """Shared by the hooks of unbound kwargs: each thread has a session of its own, so calls may run at once."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self.session = make()


class _OfSession:
    """A hook stays with its session: neither a deep copy nor another process has it."""

    def __init__(self, held: OneSession | SessionPerThread) -> None:
        self._held = held

    @property
    def session(self) -> Session:
        """The session of this thread."""
        return self._held.session

    def __reduce__(self) -> Any:
        """Raises `PlanError`."""
        raise PlanError(
            "a hook of generate_kwargs is copied deeply or sent away",
            place="generate_kwargs",
            expected="one session for all that is done with it",
            hint="call guide.generate_kwargs again; plans can be sent",
        )


class GuidanceProcessor(_OfSession, LogitsProcessor):
    """Masks the guided rows of ``scores`` and leaves all others as they are, to the bit."""

    supports_continuous_batching = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> Any:
        """``input_ids`` int64 ``[rows, length]``, ``scores`` float ``[rows, vocab]``; returns a new tensor.

        A session that is ``in_place`` may have its masks written into ``scores`` instead.
        Raises `PlanError` for prompts that the session was not made for, where there is no history to follow, and where
        two calls run at once.
        """
        if input_ids.dim() != 2:
            raise PlanError(_PAGED, place="generate")
        session = self.session
        lock = session.lock
        if not lock.acquire(False):
            raise at_once()
        try:
            if not session.read(input_ids, scores.shape[-1]):
                return scores
            masks = session.masks()
            if not scores.is_cpu:
                return session.link(scores.device).apply(scores, masks, session.is_done())
            if not masks:
                return scores
            out = session.host.apply(scores, masks, in_place=session.in_place)
            session.count(masks)
            return out
        finally:
            lock.release()


class GuidanceCriteria(_OfSession, StoppingCriteria):
    """True for the guided rows that have ended.

    The attribute ``eos_token_id`` is what makes ``generate`` pad rows that stopped while others go on.
    """

    def __init__(self, held: OneSession | SessionPerThread, eos_token_id: Sequence[int]) -> None:
        super().__init__(held)
        self.eos_token_id = list(eos_token_id)

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> Any:
        """``input_ids`` int64 ``[rows, length]`` -> bool ``[rows]``; raises `PlanError` where two calls run at once."""
        session = self.session
        lock = session.lock
        if not lock.acquire(False):
            raise at_once()
        try:
            return session.ended(input_ids)
        finally:
            lock.release()

    def __repr__(self) -> str:
        # ``generate(cache_implementation="paged")`` refuses stopping criteria and shows them in its message.
        return f"<guided: {_PAGED}>"
