"""The hidden states that a call asks for, checked; the self-test of the model that must show them."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from guided.hf.cache.head_input import head_input
from special_tokens.errors import ModelError, RequestError, shown

__all__ = ["HiddenStates", "check_hidden_states", "hidden_settings"]

Strategy = Literal["auto", "hybrid", "prefill"]


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """The way to compute the hidden state of the last token.

    ``hybrid`` takes it from the forwards of the answer, and feeds the last token together with the next step of the
    other rows.  ``prefill`` computes it after the answers, from kept rows or else from whole texts, those within a
    tenth of the shortest one's length together, at most ``max_prefill_batch_size`` at once.  ``auto`` is ``hybrid`` in
    our own loop; states that no step has shown are computed as in ``prefill``.
    """

    strategy: Strategy = "auto"
    max_prefill_batch_size: int = 8

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise RequestError(
                f"unknown strategy {shown(self.strategy)}",
                place="return_last_hidden_state",
                expected="auto, hybrid or prefill",
            )
        size = self.max_prefill_batch_size
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise RequestError(
                f"{shown(size)} is out of range", place="max_prefill_batch_size", expected="an integer of 1 or more"
            )


def hidden_settings(value: object, model: Any) -> HiddenStates | None:
    """Return the settings of the hidden states that a call asks for; None if it asks for none.

    Raises `RequestError` for a wrong value, `ModelError` for a model that shows no hidden states.
    """
    if value is False or value is None:
        return None
    if value is not True and not isinstance(value, HiddenStates):
        raise RequestError(
            f"{shown(value)} is not a way to compute hidden states",
            place="return_last_hidden_state",
            expected="True, False or guided.hf.HiddenStates(...)",
        )
    check_hidden_states(model)
    return HiddenStates() if value is True else value


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
