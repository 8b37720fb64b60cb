"""What ``generate`` calls at every step: the logits processor and the stopping criterion of one session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import LogitsProcessor, StoppingCriteria

from guided.hf.generate.call_ids import at_once
from guided.hf.generate.session import Session
from guided.hf.masks.row_masks import count
from special_tokens.errors import PlanError

__all__ = ["GuidanceCriteria", "GuidanceProcessor"]

_PAGED = (
    "guidance needs the history of every row, which continuous batching (cache_implementation='paged', "
    "generate_batch) does not show; call generate without it"
)


class GuidanceProcessor(LogitsProcessor):
    """Masks the guided rows of ``scores`` and leaves all others as they are, to the bit."""

    supports_continuous_batching = False

    def __init__(self, session: Session, call: int | None = None) -> None:
        self.session = session
        self.call = call

    def of_call(self) -> GuidanceProcessor:
        """The processor of one call of ``generate``, which begins now."""
        return GuidanceProcessor(self.session, self.session.calls.announce())

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> Any:
        """``input_ids`` int64 ``[rows, length]``, ``scores`` float ``[rows, vocab]``; returns a new tensor.

        A session that is ``in_place`` may have its masks written into ``scores`` instead.
        Raises `PlanError` for prompts that the session was not made for, where there is no history to follow, where
        two calls run at once, and for a processor that is of no call.
        """
        if input_ids.dim() != 2:
            raise PlanError(_PAGED, place="generate")
        if self.call is None:
            raise PlanError(
                "the processor was taken out of its list, so that nobody can say where a call begins",
                place="generate_kwargs",
                expected="the list kwargs['logits_processor'] itself, or with + what else is to run",
                hint="append to that list instead of making a new one; a loop of your own calls the processor's "
                "of_call() once, when it begins, and uses what that returns",
            )
        session = self.session
        lock = session.calls.lock
        if not lock.acquire(False):
            raise at_once()
        try:
            if not session.read(input_ids, scores.shape[-1], self.call):
                return scores
            masks = session.masks()
            if not scores.is_cpu:
                return session.link(scores.device).apply(scores, masks, session.is_done())
            if not masks:
                return scores
            out = session.host.apply(scores, masks, in_place=session.in_place)
            count(session.rows, masks)
            return out
        finally:
            lock.release()


class GuidanceCriteria(StoppingCriteria):
    """True for the guided rows that have ended.

    The attribute ``eos_token_id`` is what makes ``generate`` pad rows that stopped while others go on.
    """

    def __init__(self, session: Session, eos_token_id: Sequence[int]) -> None:
        self.session = session
        self.eos_token_id = list(eos_token_id)

    def of_call(self) -> GuidanceCriteria:
        """The same criterion; says that a call of ``generate`` begins."""
        self.session.calls.announce()
        return self

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> Any:
        """``input_ids`` int64 ``[rows, length]`` -> bool ``[rows]``; raises `PlanError` where two calls run at once."""
        lock = self.session.calls.lock
        if not lock.acquire(False):
            raise at_once()
        try:
            return self.session.ended(input_ids)
        finally:
            lock.release()

    def __repr__(self) -> str:
        # ``generate(cache_implementation="paged")`` refuses stopping criteria and shows them in its message.
        return f"<guided: {_PAGED}>"
