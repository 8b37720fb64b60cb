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
from guided.hf.masks.apply import RESCUE
from guided.hf.masks.transfer import on_device
from guided.rows.alone import attempt
from guided.rows.beams import Row
from guided.rows.sequence import RowSequence
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
            masks = session.masks()
            if not scores.is_cpu:
                done = session.is_done() if len(masks) < len(session.rows) else ()
                out = session.link(scores.device).apply(scores, masks, done)
            elif masks:
                out = session.host.apply(scores, masks, in_place=session.in_place)
                session.count(masks)
            else:
                return scores
            return _narrow(session.rows, out) if session.has_budgets else out
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


#: Tokens that are tried in the order of their scores: as many as transformers' default ``top_k`` lets through, so that
#: sampling is as without landing if all of them pass.
_MAX_TRIED = 50


def _narrow(rows: Sequence[Row | None], masked: torch.Tensor) -> torch.Tensor:
    """Take the tokens that budgets forbid out of ``masked`` float ``[rows, vocab]``, the scores under the masks."""
    near: dict[int, RowSequence] = {}
    for r, row in enumerate(rows):
        if isinstance(row, RowSequence) and row.landing is not None and row.is_landing():
            mask = row.token_mask()
            if mask is not None and mask.forced is None:
                near[r] = row
    if not near:
        return masked
    scores = masked[on_device(list(near), torch.long, masked.device)]
    best, ids = scores.topk(min(_MAX_TRIED, scores.shape[-1]))
    first = scores.argmax(dim=-1, keepdim=True)  # of equal scores the first one
    is_left = best > -torch.inf
    is_choice = (is_left & (best < best[:, :1])).any(dim=-1, keepdim=True)
    # Integers alone, in one tensor: the host waits once, whatever the number of rows.
    about = torch.cat([ids, first, is_left.sum(dim=-1, keepdim=True), is_choice.long()], dim=-1)
    for (r, row), numbers in zip(near.items(), about.tolist(), strict=True):
        masked[r] = attempt(row.fail, masked[r], _narrowed, row, masked[r], numbers)
    return masked


def _narrowed(row: RowSequence, scores: torch.Tensor, numbers: list[int]) -> torch.Tensor:
    """Return ``scores`` float ``[vocab]`` of a row.

    ``numbers`` are the ids of its best scores, its own token, how many of the best are left to it, and whether these
    differ.
    """
    assert row.landing is not None
    effort = row.landing.step_effort()
    *ids, best_token, num_left, is_choice = numbers
    ids = ids[:num_left]
    safe = [i for i in ids if row.lands(i, effort, is_own=i == best_token)]
    # The path's next token stays only where no other is left: it is one of many.  Tokens that were not tried are
    # masked, also if all that were tried pass.
    nearest = None if safe else row.landing_token()
    if (nearest is None and not safe) or (len(safe) == len(ids) < _MAX_TRIED):
        return scores
    if best_token not in safe and is_choice:  # drafts are asked about with equal scores: no choice
        row.note_landing(best_token)
    kept = on_device(safe if nearest is None else [nearest], torch.long, scores.device)
    out = torch.full_like(scores, -torch.inf)
    left = scores[kept]
    out[kept] = left if nearest is None else left.masked_fill(left == -torch.inf, RESCUE)
    return out
