"""Sample a batch: each row has its own settings and its own random numbers.

Rows with the same number of candidates are filtered together; no row's result depends on the others.  Top-k, top-p and
min-p are first applied to the best few hundred tokens; the whole vocabulary is sorted only when those are not enough.
The result is the same, in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.sampling import RowSampling, uniform

__all__ = ["BatchSampler", "Penalties"]

#: Candidates of a filtered row that are tried before the whole vocabulary is sorted.
CANDIDATES = 256


class BatchSampler:
    """Adjusts the logits of ``rows`` and chooses their tokens; ``prompts[r]`` are the prompt ids of row ``r``."""

    def __init__(self, rows: Sequence[RowSampling], prompts: Sequence[Sequence[int]]) -> None:
        self.rows = tuple(rows)
        self._penalties = {
            r: Penalties(row, prompt) for r, (row, prompt) in enumerate(zip(rows, prompts, strict=True))
            if row.has_penalty or row.logit_bias
        }  # fmt: skip
        self._sampled = [r for r, row in enumerate(rows) if not row.is_greedy]
        self._groups: dict[int, list[int]] = {}
        for r in self._sampled:
            self._groups.setdefault(_num_candidates(self.rows[r]), []).append(r)
        self._position = 0

    def adjust(self, logits: torch.Tensor) -> torch.Tensor:
        """Return ``logits`` float ``[rows, vocab]`` with bias and penalties; the same tensor when no row has any."""
        if not self._penalties:
            return logits
        out = logits.clone()
        for r, penalties in self._penalties.items():
            penalties.apply(out[r])
        return out

    def choose(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Choose tokens int64 ``[rows]`` from ``scores`` float ``[rows, vocab]``, with ``sound``, bool ``[rows]``.

        A row whose scores are NaN or have no finite entry is not sound: its token is meaningless.
        """
        tokens = scores.argmax(dim=-1)
        sound = scores.gather(-1, tokens[:, None]).squeeze(-1).isfinite()
        for size, rows in self._groups.items():
            index = torch.tensor(rows, device=scores.device)
            group = scores if len(rows) == len(self.rows) else scores[index]
            numbers = [uniform(self.rows[r].seed, self._position) for r in rows]
            chosen = self._draw(group, rows, size, numbers)
            tokens = tokens.index_copy(0, index, torch.where(sound[index], chosen, 0))
        self._position += 1
        return tokens, sound

    def commit(self, tokens: Sequence[int]) -> None:
        """Count the tokens that the rows wrote, for the penalties."""
        for r, penalties in self._penalties.items():
            penalties.add(tokens[r])

    def _draw(self, scores: torch.Tensor, rows: Sequence[int], size: int, numbers: Sequence[float]) -> torch.Tensor:
        settings = [self.rows[r] for r in rows]
        best = scores.amax(dim=-1, keepdim=True)  # subtracted first: a small temperature cannot overflow
        probs = ((scores - best) / _column([s.temperature for s in settings], scores)).softmax(dim=-1)
        if size == 0:
            return _pick(probs, numbers)
        size = min(size, probs.shape[-1])
        kept, ids, enough = _filtered(probs, settings, size)
        if not enough and size < probs.shape[-1]:
            return torch.cat([self._draw_whole(probs[i : i + 1], settings[i], numbers[i]) for i in range(len(rows))])
        return ids.gather(-1, _pick(kept, numbers)[:, None]).squeeze(-1)

    def _draw_whole(self, probs: torch.Tensor, settings: RowSampling, number: float) -> torch.Tensor:
        """Draw for a single row: from its candidates if they are enough, else from the sorted vocabulary."""
        for size in (min(_num_candidates(settings), probs.shape[-1]), probs.shape[-1]):
            kept, ids, enough = _filtered(probs, [settings], size)
            if enough:
                break
        return ids.gather(-1, _pick(kept, [number])[:, None]).squeeze(-1)


def _num_candidates(row: RowSampling) -> int:
    """Return the number of candidates to try first, 0 for no filter; ties at the edge of top-k need room after it."""
    return max(CANDIDATES, row.top_k + 64) if row.has_filter else 0


def _filtered(
    probs: torch.Tensor, settings: Sequence[RowSampling], size: int
) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Return probabilities and ids ``[rows, size]`` of each row's best ``size`` tokens, filtered ones at 0.

    In transformers' order: top-k (ties at its edge stay), top-p of the rest, min-p.  The boolean says whether no token
    beyond the best ``size`` could have passed the filters.
    """
    best, ids = probs.topk(size, dim=-1)
    whole = size == probs.shape[-1]
    top_k = torch.tensor([s.top_k or size for s in settings], device=probs.device).clamp(max=size)
    edge = best.gather(-1, top_k[:, None] - 1)
    has_k = torch.tensor([s.top_k > 0 for s in settings], device=probs.device)[:, None]
    kept = torch.where(has_k & (best < edge), 0.0, best)
    mass = kept.double().cumsum(-1)
    total = torch.where(has_k, mass[:, -1:], 1.0)
    # At top_p 1 rounding must not drop tokens.
    top_p = _column([s.top_p if s.top_p < 1 else 2.0 for s in settings], mass)
    kept = torch.where((mass - kept.double()) < top_p * total, kept, 0.0)
    kept = torch.where(best < _column([s.min_p for s in settings], best) * best[:, :1], 0.0, kept)
    kept[:, 0] = best[:, 0]
    enough = whole or bool((kept[:, -1] == 0).all())
    return kept, ids, enough


def _pick(probs: torch.Tensor, numbers: Sequence[float]) -> torch.Tensor:
    """Return the index at which the running sum of ``probs`` ``[rows, n]`` exceeds ``numbers[row]`` times its total."""
    mass = probs.cumsum(-1, dtype=torch.float64)
    aim = mass[:, -1:] * _column(numbers, mass)
    return torch.searchsorted(mass, aim, right=True).squeeze(-1).clamp(max=probs.shape[-1] - 1)


def _column(values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]


class Penalties:
    """Bias and penalties of one row; the cost grows with its distinct tokens, not with the vocabulary."""

    def __init__(self, row: RowSampling, prompt: Sequence[int]) -> None:
        self._row = row
        self._prompt = set(prompt) if row.repetition_penalty != 1 else set()
        self._counts: dict[int, int] = {}
        self._bias = dict(row.logit_bias)
        self._seen: torch.Tensor | None = None

    def add(self, token: int) -> None:
        """Count one more token of the answer."""
        self._counts[token] = self._counts.get(token, 0) + 1
        self._seen = None

    def apply(self, logits: torch.Tensor) -> None:
        """Change ``logits`` ``[vocab]`` in place: bias, then repetition, then frequency and presence."""
        row = self._row
        if self._bias:
            ids = torch.tensor(list(self._bias), device=logits.device)
            logits[ids] += torch.tensor(list(self._bias.values()), dtype=logits.dtype, device=logits.device)
        if row.repetition_penalty != 1:
            if self._seen is None:
                self._seen = torch.tensor(sorted(self._prompt | self._counts.keys()), device=logits.device)
            picked = logits[self._seen]
            by = row.repetition_penalty
            logits[self._seen] = torch.where(picked < 0, picked * by, picked / by)
        if self._counts and (row.frequency_penalty or row.presence_penalty):
            ids = torch.tensor(list(self._counts), device=logits.device)
            counts = torch.tensor(list(self._counts.values()), dtype=logits.dtype, device=logits.device)
            logits[ids] -= counts * row.frequency_penalty + row.presence_penalty
