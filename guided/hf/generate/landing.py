"""Mask the scores of rows near their budgets: only tokens after which an end within the budget was found stay."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.hf.masks.apply import RESCUE
from guided.rows.alone import alone
from guided.rows.beams import Row
from guided.rows.sequence import RowSequence

__all__ = ["narrow"]

#: Tokens that are tried in the order of their scores: as many as transformers' default ``top_k`` lets through, so that
#: sampling is as without landing if all of them pass.
_TRIED = 50


def narrow(rows: Sequence[Row | None], masked: torch.Tensor) -> torch.Tensor:
    """Take the tokens that budgets forbid out of ``masked`` float ``[rows, vocab]``, the scores under the masks."""
    for r, row in enumerate(rows):
        if isinstance(row, RowSequence) and row.landing is not None and row.is_landing():
            mask = row.token_mask()
            if mask is not None and mask.forced is None:
                masked[r] = alone(row.fail, masked[r], _narrowed, row, masked[r])
    return masked


def _narrowed(row: RowSequence, scores: torch.Tensor) -> torch.Tensor:
    assert row.landing is not None
    effort = row.landing.step_effort()
    top = scores.topk(min(_TRIED, len(scores)))
    ids = [i for i, score in zip(top.indices.tolist(), top.values.tolist(), strict=True) if score > -torch.inf]
    own = int(scores.argmax())  # of equal scores the first one
    safe = [i for i in ids if row.lands(i, effort, is_own=i == own)]
    # The path's next token is one of many: it stays only where nothing else is left.  Tokens that were not tried are
    # masked, also if all that were tried pass.
    nearest = None if safe else row.landing_token()
    if (nearest is None and not safe) or (len(safe) == len(ids) < _TRIED):
        return scores
    if own not in safe and scores[own] > scores[ids[-1]]:  # drafts are asked about with equal scores: no choice
        row.note_landing(own)
    kept = torch.tensor(safe if nearest is None else [*safe, nearest], device=scores.device)
    out = torch.full_like(scores, -torch.inf)
    out[kept] = scores[kept]
    if not safe and scores[nearest] == -torch.inf:
        out[nearest] = RESCUE
    return out
