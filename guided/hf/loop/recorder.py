"""Record the model's log-probabilities at each token, before and after the mask.

The numbers stay on the device until they are read, so recording adds no synchronisation to a step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch

from guided.hf.masks.transfer import on_device
from guided.sampling import TokenLogprob

__all__ = ["Recorder"]


class Recorder:
    """Records the rows that ``num_top`` names by their numbers; ``num_top[r]`` top tokens are kept for row ``r``."""

    def __init__(self, num_top: Mapping[int, int]) -> None:
        self.rows = sorted(num_top)
        self._num_top = dict(num_top)
        self._most = max(num_top.values(), default=0)
        #: by row, per token: numbers float ``[5]``, top log-probabilities and their ids ``[2, num_top]``
        self._tokens: dict[int, list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]] = {r: [] for r in num_top}
        now = time.perf_counter()
        self._times: dict[int, list[float]] = {r: [now] for r in num_top}  #: of the beginning, then of each token

    def record(self, raw: torch.Tensor, scores: torch.Tensor, tokens: torch.Tensor, rows: Sequence[int]) -> None:
        """Record one step of ``rows``: raw logits and processed scores float ``[rows, vocab]``, tokens ``[rows]``."""
        places = [i for i, r in enumerate(rows) if r in self._tokens]
        if not places:
            return
        masked = scores is not raw
        if len(places) < len(rows):
            index = on_device(places, torch.long, raw.device)
            raw, tokens = raw[index], tokens[index]
            scores = scores[index] if masked else raw
        self._add([rows[i] for i in places], raw, scores, tokens, masked=masked)

    def record_forced(self, row: int, raw: torch.Tensor, tokens: Sequence[int]) -> None:
        """Record tokens of ``row`` that were forced, from the raw logits float ``[tokens, vocab]`` at their places."""
        chosen = on_device(tokens, torch.long, raw.device)
        scores = torch.full_like(raw, float("-inf")).scatter_(-1, chosen[:, None], 0.0)
        self._add([row] * len(tokens), raw, scores, chosen, masked=True)

    def _add(
        self, rows: Sequence[int], raw: torch.Tensor, scores: torch.Tensor, tokens: torch.Tensor, *, masked: bool
    ) -> None:
        columns = self._rows(raw, scores, tokens[:, None], masked=masked)
        now = time.perf_counter()
        for row, *values in zip(rows, *columns, strict=True):
            self._tokens[row].append((values[0], values[1], values[2]))
            self._times[row].append(now)

    def _rows(
        self, raw: torch.Tensor, scores: torch.Tensor, chosen: torch.Tensor, *, masked: bool
    ) -> tuple[torch.Tensor, ...]:
        """Reduce rows of one step to the numbers that `logprobs` reads; without ``masked``, scores equal ``raw``."""
        before, top, ids = _summary(raw, chosen, max(1, self._most))
        after, masked_top, masked_ids = (before, top, ids)
        allowed = torch.full_like(before, raw.shape[-1])
        overridden = removed = torch.zeros_like(before)
        if masked:
            illegal = scores.isneginf()
            removed = raw.softmax(dim=-1).mul_(illegal).sum(-1, keepdim=True)
            after, masked_top, masked_ids = _summary(scores, chosen, max(1, self._most))
            allowed = allowed - illegal.sum(-1, keepdim=True)
            overridden = illegal.gather(-1, ids[:, :1]).float()
        return (
            torch.cat([before, after, removed, allowed, overridden], dim=-1),
            torch.stack([top, masked_top], dim=1),
            torch.stack([ids, masked_ids], dim=1),
        )

    def seconds(self, row: int) -> tuple[float, ...]:
        """Return for each token of ``row`` the seconds since the one before it; of the first since the beginning."""
        return tuple(after - before for before, after in pairwise(self._times[row]))

    def num_recorded(self, row: int) -> int:
        """Return the number of tokens of ``row`` that have records."""
        return len(self._tokens[row])

    def logprobs(self, row: int, token_ids: Sequence[int], first: int = 0) -> tuple[TokenLogprob, ...]:
        """Return the records of ``row`` for its ``token_ids``, the first of which is its token number ``first``."""
        kept = self._tokens[row][first : first + len(token_ids)]
        if not kept:
            return ()
        numbers, top, ids = (torch.stack(column).tolist() for column in zip(*kept, strict=True))
        size = self._num_top[row]
        return tuple(
            TokenLogprob(
                token,
                before,
                after,
                _pairs(ids[i][0], top[i][0], size),
                _pairs(ids[i][1], top[i][1], size),
                int(allowed),
                bool(overridden),
                removed,
            )
            for i, (token, (before, after, removed, allowed, overridden)) in enumerate(
                zip(token_ids, numbers, strict=False)
            )
        )


def _summary(logits: torch.Tensor, chosen: torch.Tensor, num_top: int) -> tuple[torch.Tensor, ...]:
    """Return log-probabilities of the chosen tokens ``[rows, 1]``, then of the best ``[rows, num_top]`` with ids."""
    logprobs = logits.log_softmax(dim=-1)
    return logprobs.gather(-1, chosen), *logprobs.topk(min(num_top, logits.shape[-1]))


def _pairs(ids: list[int], logprobs: list[float], size: int) -> tuple[tuple[int, float], ...]:
    """Return the first ``size`` tokens with their log-probabilities, those of probability 0 left out."""
    return tuple((i, p) for i, p in zip(ids[:size], logprobs[:size], strict=True) if p > float("-inf"))
