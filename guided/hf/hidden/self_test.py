"""A self-test of a model: the input of its output embeddings must be its last layer's state after the final norm."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from guided.hf.cache.head_input import head_input
from special_tokens.errors import ModelError

__all__ = ["check_hidden_states"]

#: Largest difference, relative to the largest number, between the states of a text and of its beginning.
_MAX_NOISE = {torch.float32: 1e-3, torch.float64: 1e-3}
_MAX_NOISE_IN_HALF = 0.1

_faults: weakref.WeakKeyDictionary[Any, dict[Any, str]] = weakref.WeakKeyDictionary()


def check_hidden_states(model: Any) -> None:
    """Raise `ModelError` where ``model`` shows no hidden states; tested once per model, dtype and device.

    The states that `head_input` sees must be the model's own last hidden states, as ``output_hidden_states=True``
    returns them, and a token must not change the states of earlier positions.
    """
    key = (str(getattr(model, "dtype", "")), str(getattr(model, "device", "")))
    try:
        faults = _faults.setdefault(model, {})
    except TypeError:
        faults = {}
    if key not in faults:
        faults[key] = _fault(model)
    if faults[key]:
        raise ModelError(
            f"{type(model).__name__}: {faults[key]}",
            place="return_last_hidden_state",
            expected="a decoder whose output embeddings are fed its last hidden state",
        )


def _fault(model: Any) -> str:
    """Return why the states of the model cannot be used; "" if they can."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        return "an encoder-decoder has no hidden state of prompt and answer as one text"
    try:
        embeddings = model.get_input_embeddings().weight
        size = embeddings.shape[0]
        ids = torch.arange(size // 4, size // 4 + 6, device=embeddings.device)[None] % size
        computed, seen = _states(model, ids)
        _, early = _states(model, ids[:, :4])
    except torch.OutOfMemoryError:
        raise  # it says nothing of the model
    except Exception as error:  # models may raise anything: it is the answer
        return f"its states cannot be seen ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
    if seen.shape != computed.shape or not _difference(seen, computed) <= 1e-5:
        return "what enters its output embeddings is not its last hidden state"
    if not _difference(early, seen[:, :4]) <= _MAX_NOISE.get(model.dtype, _MAX_NOISE_IN_HALF):
        return "it is not a decoder: its states change with the tokens that follow"
    return ""


def _states(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the last hidden states as the model returns them, and as `head_input` sees them."""
    with torch.no_grad(), head_input(model) as seen:
        out = model(input_ids=ids, use_cache=False, output_hidden_states=True, return_dict=True)
    return out.hidden_states[-1].float(), seen[-1].float()


def _difference(states: torch.Tensor, right: torch.Tensor) -> float:
    return float((states - right).abs().max() / right.abs().max())
