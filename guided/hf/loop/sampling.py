"""Sample a batch: each row has its own settings and its own random numbers.

Rows with the same number of candidates are filtered together; no row's result depends on the others.  Top-k, top-p and
min-p are first applied to the best few hundred tokens; the whole vocabulary is sorted only when those are not enough.
The result is the same, in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from guided.hf.drafts.settings import say_once
from guided.hf.masks.transfer import on_device
from guided.sampling import RowSampling, Sampling, per_row, resolve, uniform
from special_tokens.errors import RequestError

__all__ = ["Penalties", "RowSampler", "adjust", "choose", "context_size", "row_samplings", "sampling_defaults"]

#: Candidates of a filtered row that are tried before the whole vocabulary is sorted.
CANDIDATES = 256


class RowSampler:
    """The sampling of one row: its settings and, where it has any, its bias and penalties."""

    def __init__(self, settings: RowSampling, prompt: Sequence[int] = ()) -> None:
        self.settings = settings
        has_any = settings.has_penalty or bool(settings.logit_bias)
        self.penalties = Penalties(settings, prompt) if has_any else None

    def commit(self, tokens: Sequence[int]) -> None:
        """Count tokens that the row wrote, for its penalties."""
        if self.penalties is not None:
            for token in tokens:
                self.penalties.add(token)


def adjust(logits: torch.Tensor, rows: Sequence[RowSampler]) -> torch.Tensor:
    """Return ``logits`` float ``[rows, vocab]`` with bias and penalties; the same tensor when no row has any."""
    parts = [row.penalties.parts(i * logits.shape[-1]) for i, row in enumerate(rows) if row.penalties is not None]
    if not parts:
        return logits
    out = logits.clone(memory_format=torch.contiguous_format)
    flat = out.view(-1)
    # One copy of ids and one of numbers, and as many operations for any number of rows.
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    ids = on_device(np.concatenate(columns[::2]), torch.long, out.device).split([len(part) for part in columns[::2]])
    numbers = on_device(np.concatenate(columns[1::2]), out.dtype, out.device).split(
        [len(part) for part in columns[1::2]]
    )
    flat[ids[0]] += numbers[0]
    picked = flat[ids[1]]
    flat[ids[1]] = torch.where(picked < 0, picked * numbers[1], picked / numbers[1])
    flat[ids[2]] -= numbers[2]
    return out


def choose(
    scores: torch.Tensor, rows: Sequence[RowSampler], positions: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose tokens int64 ``[rows]`` from ``scores`` float ``[rows, vocab]``, with ``sound``, bool ``[rows]``.

    ``positions[i]`` is the index that the token will have in its answer: it selects the row's random number, so
    neither other rows nor forced tokens change it.  A row whose scores are NaN or have no finite entry is not
    sound: its token is meaningless.
    """
    tokens, sound = _best(scores)
    groups: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        if not row.settings.is_greedy:
            groups.setdefault(_num_candidates(row.settings), []).append(i)
    for size, places in groups.items():
        index = on_device(places, torch.long, scores.device)
        group = scores if len(places) == len(rows) else scores[index]
        settings = [rows[i].settings for i in places]
        numbers = [uniform(rows[i].settings.seed, positions[i]) for i in places]
        # Sums are doubles, which Apple's GPUs do not have.
        chosen = _draw(group.cpu() if group.device.type == "mps" else group, settings, size, numbers)
        tokens = tokens.index_copy(0, index, torch.where(sound[index], chosen.to(tokens.device), 0))
    return tokens, sound


def _best(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first of the greatest scores of each row, or its first NaN, and whether that score is finite.

    On the CPU numpy's argmax takes a twentieth of torch's time.
    """
    if scores.is_cpu and scores.dtype == torch.float32:
        array = scores.detach().numpy()
        best = array.argmax(axis=-1)
        return torch.from_numpy(best), torch.from_numpy(np.isfinite(array[np.arange(len(array)), best]))
    tokens = scores.argmax(dim=-1)
    return tokens, scores.gather(-1, tokens[:, None]).squeeze(-1).isfinite()


def _draw(scores: torch.Tensor, settings: Sequence[RowSampling], size: int, numbers: Sequence[float]) -> torch.Tensor:
    best = scores.amax(dim=-1, keepdim=True)  # subtracted first: a small temperature cannot overflow
    probs = ((scores - best) / _column([s.temperature for s in settings], scores)).softmax(dim=-1)
    if size == 0:
        return _draw_unfiltered(probs, numbers)
    # On an accelerator the host would have to wait for the answer whether the candidates are enough.
    size = min(size, probs.shape[-1]) if scores.is_cpu else probs.shape[-1]
    kept, ids, enough = _filtered(probs, settings, size)
    if not enough and size < probs.shape[-1]:
        return torch.cat([_draw_whole(probs[i : i + 1], settings[i], numbers[i]) for i in range(len(settings))])
    return ids.gather(-1, _pick(kept, numbers)[:, None]).squeeze(-1)


def _draw_unfiltered(probs: torch.Tensor, numbers: Sequence[float]) -> torch.Tensor:
    """Draw from all tokens, in order of probability: so the last bits of the logits seldom change the draw.

    In order of ids the bits of all tokens before one would move its place in the running sum.
    """
    width = probs.shape[-1]
    best, ids = probs.topk(min(CANDIDATES, width) if probs.is_cpu else width, dim=-1)
    aim = probs.sum(-1, keepdim=True, dtype=torch.float64) * on_device(numbers, torch.float64, probs.device)[:, None]
    mass = best.cumsum(-1, dtype=torch.float64)
    if best.shape[-1] < width and not bool((aim < mass[:, -1:]).all()):
        best, ids = probs.sort(dim=-1, descending=True)
        mass = best.cumsum(-1, dtype=torch.float64)
    place = torch.searchsorted(mass, aim, right=True).clamp(max=best.shape[-1] - 1)
    return ids.gather(-1, place).squeeze(-1)


def _draw_whole(probs: torch.Tensor, settings: RowSampling, number: float) -> torch.Tensor:
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
    top_k = on_device([min(s.top_k or size, size) for s in settings], torch.long, probs.device)
    edge = best.gather(-1, top_k[:, None] - 1)
    has_k = on_device([s.top_k > 0 for s in settings], torch.bool, probs.device)[:, None]
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
    return on_device(values, like.dtype, like.device)[:, None]


class Penalties:
    """Bias and penalties of one row; the cost grows with its distinct tokens, not with the vocabulary."""

    def __init__(self, row: RowSampling, prompt: Sequence[int]) -> None:
        self._row = row
        self._seen = _ids(sorted(set(prompt)) if row.repetition_penalty != 1 else ())
        self._seen_set = set(self._seen.tolist())
        self._counts: dict[int, int] = {}
        self._bias = _ids([token for token, _ in row.logit_bias]), _numbers([score for _, score in row.logit_bias])

    def add(self, token: int) -> None:
        """Count one more token of the answer."""
        self._counts[token] = self._counts.get(token, 0) + 1
        if self._row.repetition_penalty != 1 and token not in self._seen_set:
            self._seen_set.add(token)
            self._seen = np.append(self._seen, token)

    def parts(self, first: int) -> tuple[NDArray[Any], ...]:
        """Return what to do in this order with the row's scores, which begin at ``first``: three times ids and numbers.

        The bias to add, the repetition penalties to divide by, and the other penalties to subtract.
        """
        row, counts = self._row, self._counts if self._row.frequency_penalty or self._row.presence_penalty else {}
        by = np.full(len(self._seen), row.repetition_penalty, dtype=np.float32)
        less = _numbers(tuple(counts.values())) * np.float32(row.frequency_penalty) + np.float32(row.presence_penalty)
        return self._bias[0] + first, self._bias[1], self._seen + first, by, _ids(tuple(counts)) + first, less


def _ids(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _numbers(values: Sequence[float]) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


#: Fields of a generation config that `guided.Sampling` has as well, and those that it lacks with their neutral values.
_OURS = ("do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_FOREIGN = {"typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "top_h": None}


def sampling_defaults(model: Any) -> dict[str, Any]:
    """Return the sampling fields that the model's generation config sets."""
    config = model.generation_config
    defaults = {name: getattr(config, name, None) for name in _OURS}
    if defaults["do_sample"]:
        for name, neutral in _FOREIGN.items():
            if getattr(config, name, None) not in (None, neutral):
                say_once(model, f"the model's generation config sets {name}, which is not applied here")
    return {name: value for name, value in defaults.items() if value is not None}


def row_samplings(
    sampling: Sampling | Sequence[Sampling] | None,
    seed: int | Sequence[int] | None,
    num_chats: int,
    model: Any,
    vocab_size: int,
) -> list[tuple[RowSampling, ...]]:
    """Return the rows of each chat; ``seed`` overrides the samplings' own seeds."""
    defaults = sampling_defaults(model)
    samplings = per_row(sampling if sampling is not None else Sampling(), num_chats, "sampling")
    for r, value in enumerate(samplings):
        if not isinstance(value, Sampling):
            raise RequestError(
                f"{type(value).__name__} is not a Sampling", place=f"sampling[{r}]", expected="guided.Sampling(...)"
            )
    seeds = per_row(seed, num_chats, "seed")
    rows = [s if i is None else replace(s, seed=i) for s, i in zip(samplings, seeds, strict=True)]
    return [resolve(row, defaults, vocab_size=vocab_size) for row in rows]


def context_size(model: Any, most: int | None = None) -> int | None:
    """Return the tokens that prompt and answer may have, at most ``most``; None without a limit: recurrent models."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min(filter(None, (context and int(context), most)), default=None)
