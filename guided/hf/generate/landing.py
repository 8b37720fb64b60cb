"""Mask the scores of rows near their budgets: only tokens after which an end within the budget was found stay."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.hf.masks.apply import RESCUE
from guided.hf.masks.transfer import on_device
from guided.rows.alone import attempt
from guided.rows.beams import Row
from guided.rows.sequence import RowSequence

__all__ = ["narrow"]

#: Tokens that are tried in the order of their scores: as many as transformers' default ``top_k`` lets through, so that
#: sampling is as without landing if all of them pass.
_MAX_TRIED = 50


def narrow(rows: Sequence[Row | None], masked: torch.Tensor) -> torch.Tensor:
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
