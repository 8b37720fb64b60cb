"""The cache of rows that are decoded step by step, one token per row and forward, on ``generate``'s own inputs.

It serves models that cannot take several tokens at once, static caches, models that prepare their inputs themselves,
and logits processors of a generation config, which must see every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from guided.hf.cache.head_input import head_input, last_columns
from guided.hf.masks.transfer import on_device

__all__ = ["CACHE_NAMES", "PLAIN_INPUTS", "StepKV", "cache_of"]

#: What models call their cache: the name since transformers 5.24, and two older ones.
CACHE_NAMES = ("cache", "cache_params", "past_key_values")

#: Model inputs with which the model can be called directly.
PLAIN_INPUTS = {"attention_mask", "position_ids", "cache", "past_key_values", "use_cache", "logits_to_keep"}


def cache_of(named: Mapping[str, Any]) -> Any:
    """Return the cache among inputs or outputs of a model; None where there is none."""
    return next((named[name] for name in CACHE_NAMES if name in named), None)


class StepKV:
    """Rows of one rectangular batch; they stay until the last has ended.

    ``input_ids`` int64 ``[rows, length]``, ``config`` and ``model_kwargs`` are what ``generate`` prepared.
    ``ids[r]`` are the tokens of row ``r`` that the model has seen, the padding left out.
    """

    def __init__(self, model: Any, input_ids: torch.Tensor, config: Any, model_kwargs: dict[str, Any]) -> None:
        self._model = model
        self._config = config
        self._kwargs = model_kwargs
        self._history = _grown(input_ids, 64)
        self._len = int(input_ids.shape[1])
        self._forward: _Forward | None = None
        self.ids: list[list[int]] = [[] for _ in range(len(input_ids))]
        self.hidden: torch.Tensor | None = None  # as in `KVCache`

    @property
    def history(self) -> torch.Tensor:
        """Prompts and answers with their padding, int64 ``[rows, length]``."""
        return self._history[:, : self._len]

    def feed(self, chunks: Sequence[Sequence[int]], keep: int = 1, hidden: bool = False) -> torch.Tensor:
        """Return the logits ``[rows, 1, vocab]`` after ``chunks``: the prompts first, then one token per row."""
        with torch.no_grad(), head_input(self._model, hidden) as seen:
            if self._forward is None:
                outputs = self._model._prefill(self.history, self._config, self._kwargs)
                self._forward = _Forward(self._model, outputs, self._config, self._kwargs)
            else:
                self._write([chunk[0] for chunk in chunks])
                outputs = self._forward.next(self.history)
        for ids, chunk in zip(self.ids, chunks, strict=True):
            ids += chunk
        self.hidden = last_columns(seen, 1)
        logits: torch.Tensor = outputs.logits[:, -1:]
        return logits

    def _write(self, tokens: list[int]) -> None:
        if self._len == self._history.shape[1]:
            self._history = _grown(self._history, self._len)
        self._history[:, self._len] = on_device(tokens, torch.long, self._history.device)
        self._len += 1


class _Forward:
    """Calls the model on inputs that it prepares itself."""

    def __init__(self, model: Any, outputs: Any, config: Any, model_kwargs: dict[str, Any]) -> None:
        self._model = model
        self._call = model
        if model._valid_auto_compile_criteria(model_kwargs, config):
            self._call = model.get_compiled_call(config.compile_config)
        self._kwargs = model._update_model_kwargs_for_generation(outputs, model_kwargs)
        self._new = 1 if model_kwargs.get("use_cache", True) else None  # None, without a cache: the whole history

    def next(self, history: torch.Tensor) -> Any:
        inputs = self._model.prepare_inputs_for_generation(history, next_sequence_length=self._new, **self._kwargs)
        outputs = self._call(**inputs, return_dict=True)
        self._kwargs = self._model._update_model_kwargs_for_generation(outputs, self._kwargs)
        return outputs


def _grown(rows: torch.Tensor, by: int) -> torch.Tensor:
    """Return ``rows`` ``[n, length]`` with ``by`` more columns."""
    tail = torch.zeros((rows.shape[0], by), dtype=rows.dtype, device=rows.device)
    return torch.cat([rows, tail], dim=-1)
