"""The rows of one ``generate`` call: the logits processor and the stopping criterion that share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, StoppingCriteria

from guided.bitmask import num_words
from guided.compile import Engine
from guided.free import FreeSequence
from guided.hf.apply import apply_bitmask
from guided.sequence import RowSequence
from special_tokens.errors import PlanError

__all__ = ["GuidanceCriteria", "GuidanceProcessor", "Session"]


class Session:
    """The state of all rows in one ``generate`` call; begins anew when the same objects are used again.

    ``rows[r]`` is None for a row without a plan.  ``finish_ids[r]`` is what row ``r`` writes when it cannot go on.
    """

    def __init__(self, rows: Sequence[RowSequence | FreeSequence | None], engine: Engine, *, filler: int) -> None:
        self.rows = tuple(rows)
        self.guided = tuple(r for r, row in enumerate(self.rows) if row is not None)
        self.engine = engine
        self.filler = filler
        self.prompt_len: int | None = None
        self._seen = 0

    def update(self, input_ids: torch.Tensor) -> None:
        """Bring every guided row to ``input_ids`` ``[rows, prompt + generated]``."""
        if input_ids.shape[0] != len(self.rows):
            raise PlanError(
                f"{input_ids.shape[0]} rows are generated, {len(self.rows)} were planned",
                place="generate_kwargs",
                hint="pass expand=num_return_sequences (or num_beams)",
            )
        length = input_ids.shape[1]
        if self.prompt_len is None or length < self.prompt_len or length < self._seen:
            self.begin(length)
        self._seen = length
        assert self.prompt_len is not None
        if length == self.prompt_len:
            return
        generated = input_ids[:, self.prompt_len :].tolist()
        for r in self.guided:
            row = self.rows[r]
            assert row is not None
            row.sync(generated[r])

    def begin(self, prompt_len: int) -> None:
        """A new call of ``generate``: every row back to its beginning."""
        self.prompt_len = prompt_len
        for r in self.guided:
            row = self.rows[r]
            assert row is not None
            row.restart()

    def is_done(self) -> list[bool]:
        return [row is not None and row.is_done for row in self.rows]


class GuidanceProcessor(LogitsProcessor):
    """Masks the guided rows of ``scores`` and leaves all others as they are, to the bit."""

    supports_continuous_batching = False

    def __init__(self, session: Session) -> None:
        self.session = session

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> Any:
        """``input_ids`` int ``[rows, length]``, ``scores`` float ``[rows, vocab]``; returns a new tensor."""
        session = self.session
        session.update(input_ids)
        bitmask = np.zeros((len(session.guided), num_words(session.engine.vocab_size)), dtype=np.int32)
        rows: list[int] = []
        for r in session.guided:
            row = session.rows[r]
            assert row is not None
            if row.fill_bitmask(bitmask, len(rows)):
                rows.append(r)
            elif row.is_done and row.error is not None:
                bitmask[len(rows)] = 0
                bitmask[len(rows), session.filler >> 5] = np.int32(np.uint32(1 << (session.filler & 31)).view(np.int32))
                rows.append(r)
        if not rows:
            return scores
        bitmask = bitmask[: len(rows)]
        scores, overridden, _ = apply_bitmask(scores, bitmask, rows)
        for r in overridden:
            session.rows[r].overridden += 1  # type: ignore[union-attr]
        return scores


class GuidanceCriteria(StoppingCriteria):
    """True for the guided rows that have ended.

    The attribute ``eos_token_id`` is what makes ``generate`` pad rows that stopped while others go on.
    """

    def __init__(self, session: Session, eos_token_id: Sequence[int]) -> None:
        self.session = session
        self.eos_token_id = list(eos_token_id)

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> Any:
        """``input_ids`` int ``[rows, length]`` -> bool ``[rows]``."""
        self.session.update(input_ids)
        return torch.tensor(self.session.is_done(), dtype=torch.bool, device=input_ids.device)
