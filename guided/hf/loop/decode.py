"""The decode loop of guided, plugged into ``generate`` as a ``custom_generate`` callable.

``generate`` prepares everything (cache, processors, criteria); the loop is a generator of steps, so that a caller can
stream, stop early, or drain it.  Greedy decoding gives the same tokens as ``generate``.  The history is one buffer
that grows in place.  Models that use transformers' own input preparation are called directly; other models and caches
go through their own preparation at each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from transformers import DynamicCache, GenerationMixin
from transformers.generation import GenerateDecoderOnlyOutput, GenerationMode

from guided.hf.loop.recorder import Recorder
from guided.hf.loop.sampling import BatchSampler
from guided.hf.masks.logits_check import not_numbers
from special_tokens.errors import GuidanceError, RequestError

__all__ = ["LoopControl", "Step", "decode", "decode_steps", "start"]

#: Model inputs with which the model can be called directly.
_PLAIN_INPUTS = {"attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}


#: Outputs of ``generate`` that this loop does not collect (with ``return_dict_in_generate``).
_OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``tokens[r]`` is the token of row ``r``; ``live[r]`` is false when the row had ended before."""

    tokens: list[int]
    live: list[bool]


class Streamer(Protocol):
    """A streamer as in transformers: receives the prompt, then the tokens of each step."""

    def put(self, value: torch.Tensor) -> None: ...

    def end(self) -> None: ...


@dataclass
class LoopControl:
    """Settings of one call of the loop that ``generate`` does not know, and the errors of single rows.

    Without a ``sampler`` the processors prepared by ``generate`` decide alone.  ``max_tokens`` has a limit per row.
    ``errors`` maps a row to the error that ended it: logits that are NaN or all infinite.
    """

    sampler: BatchSampler | None = None
    max_tokens: Sequence[int] | None = None
    recorder: Recorder | None = None
    streamer: Streamer | None = None
    errors: dict[int, GuidanceError] = field(default_factory=dict)


def start(model: Any, inputs: Any, control: LoopControl | None = None, **kwargs: Any) -> Iterator[Step]:
    """Let ``generate`` prepare everything and return the steps; the prefill runs at the first ``next``."""
    steps: Iterator[Step] = model.generate(**inputs, custom_generate=decode_steps, control=control, **kwargs)
    return steps


def decode(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    control: LoopControl | None = None,
    **model_kwargs: Any,
) -> torch.Tensor | GenerateDecoderOnlyOutput:
    """Decode for ``model.generate(..., custom_generate=decode)``; return the sequences int64 ``[rows, length]``.

    With ``return_dict_in_generate`` they are ``sequences`` of transformers' output object.  Raises `RequestError` for
    settings that this loop does not support: beams, drafts, outputs other than the sequences.  ``generate`` passes a
    callable neither its ``streamer`` nor its ``assistant_model``: a streamer goes into ``control``.
    """
    _check_settings(generation_config, control)
    loop = _Loop(model, input_ids, logits_processor, stopping_criteria, generation_config, control or LoopControl())
    for _ in loop.steps(model_kwargs):
        pass
    if generation_config.return_dict_in_generate:
        cache = model_kwargs.get("past_key_values")
        return GenerateDecoderOnlyOutput(sequences=loop.history, past_key_values=cache)
    return loop.history


def _check_settings(config: Any, control: LoopControl | None) -> None:
    """Raise `RequestError` for settings that this loop does not support; with a sampler nothing is checked."""
    if control is not None and control.sampler is not None:
        return
    mode = config.get_generation_mode()
    if mode not in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE):
        raise RequestError(
            f"{mode.value.replace('_', ' ')} is not supported by guided's loop",
            place="custom_generate",
            expected="greedy search or sampling, one row each",
            hint="leave custom_generate out: guide.generate_kwargs works with every mode of generate",
        )
    for name in _OUTPUTS if config.return_dict_in_generate else ():
        if getattr(config, name, False):
            raise RequestError(
                f"{name} is not collected by guided's loop",
                place="custom_generate",
                hint="leave custom_generate out, or ask guide.generate for logprobs",
            )


def decode_steps(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    control: LoopControl | None = None,
    **model_kwargs: Any,
) -> Iterator[Step]:
    """Return the steps of one static batch; rows end one by one, the loop with the last.

    Raises `RequestError` as `decode` does.
    """
    _check_settings(generation_config, control)
    loop = _Loop(model, input_ids, logits_processor, stopping_criteria, generation_config, control or LoopControl())
    return loop.steps(model_kwargs)


class _Loop:
    """One run of the decode loop over one batch."""

    def __init__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        control: LoopControl,
    ) -> None:
        self.model = model
        self.control = control
        self._processor = logits_processor
        self._criteria = stopping_criteria
        self._config = generation_config
        self._pad = getattr(generation_config, "_pad_token_tensor", None)
        self._pads_rows = any(hasattr(criterion, "eos_token_id") for criterion in stopping_criteria)
        self._ids = _grown(input_ids, 64)
        self._len = int(input_ids.shape[1])
        self._unfinished = torch.ones(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        self._last = self._last_columns(control.max_tokens)

    def _last_columns(self, max_tokens: Sequence[int] | None) -> torch.Tensor | None:
        """Return the history length at which each row ends, int64 ``[rows]``; None when the criteria enforce it."""
        if max_tokens is None or len(set(max_tokens)) == 1:
            return None
        return torch.tensor(max_tokens, device=self._ids.device) + self._len

    @property
    def history(self) -> torch.Tensor:
        """Prompts and answers int64 ``[rows, length]``."""
        return self._ids[:, : self._len]

    def steps(self, model_kwargs: dict[str, Any]) -> Iterator[Step]:
        if self.control.streamer is not None:
            self.control.streamer.put(self.history.cpu())
        forward: _Forward | None = None
        live = [True] * len(self._unfinished)
        while any(live):
            with torch.no_grad():
                if forward is None:
                    outputs = self.model._prefill(self.history, self._config, model_kwargs)
                    forward = _forward_of(self.model, self.history, outputs, self._config, model_kwargs)
                else:
                    outputs = forward.next(self.history)
                tokens = self._choose(outputs.logits[:, -1])
                del outputs
                written, going_on = self._commit(tokens)
            yield Step(written, [flag and r not in self.control.errors for r, flag in enumerate(live)])
            live = [bool(flag) for flag in going_on]
        if self.control.streamer is not None:
            self.control.streamer.end()

    def _choose(self, logits: torch.Tensor) -> torch.Tensor:
        """Process the logits ``[rows, vocab]``, choose one token per row, record."""
        raw = logits.to(copy=True, dtype=torch.float32, device=self._ids.device)
        sampler = self.control.sampler
        # A mask may hide broken logits, and one written in place overwrites them: look at the raw logits first.
        best = raw.amax(dim=-1) if sampler is not None and len(self._processor) > 0 else None
        scores = self._processor(self.history, sampler.adjust(raw) if sampler is not None else raw)
        if sampler is not None:
            tokens, sound = sampler.choose(scores)
            if best is not None:
                sound &= best.isfinite()
            self._fail(sound)
        elif self._config.do_sample:
            tokens = torch.multinomial(scores.softmax(dim=-1), num_samples=1).squeeze(1)
        else:
            tokens = scores.argmax(dim=-1)
        if self.control.recorder is not None:
            self.control.recorder.record(raw, scores, tokens)
        return tokens

    def _fail(self, sound: torch.Tensor) -> None:
        """End the rows whose scores are not ``sound``; the others go on."""
        broken = self._unfinished & ~sound
        if bool(broken.any()):
            for r in torch.nonzero(broken).flatten().tolist():
                self.control.errors[r] = not_numbers(f"row {r}")
            self._unfinished = self._unfinished & sound

    def _commit(self, tokens: torch.Tensor) -> tuple[list[int], list[int]]:
        """Append the step's tokens; return their ids and which rows go on, in one copy to the host."""
        if self._pad is not None and self._pads_rows:
            tokens = torch.where(self._unfinished, tokens, self._pad)
        if self._len == self._ids.shape[1]:
            self._ids = _grown(self._ids, self._len)
        self._ids[:, self._len] = tokens
        self._len += 1
        self._unfinished = self._unfinished & ~self._criteria(self.history, None)
        if self._last is not None:
            self._unfinished &= self._last > self._len
        host = torch.stack([tokens, self._unfinished]).tolist()
        if self.control.sampler is not None:
            self.control.sampler.commit(host[0])
        if self.control.streamer is not None:
            self.control.streamer.put(tokens.cpu())
        return host[0], host[1]


class _Forward(Protocol):
    """A forward pass over the newest column of the history."""

    def next(self, history: torch.Tensor) -> Any: ...


class _DirectForward:
    """Calls the model directly, with the inputs that transformers' own preparation would compute."""

    def __init__(self, model: Any, history: torch.Tensor, model_kwargs: dict[str, Any]) -> None:
        self._model = model
        self._cache = model_kwargs["past_key_values"]
        self._mask = model_kwargs.get("attention_mask")
        self._columns = int(history.shape[1])
        if self._mask is not None:
            self._mask = _grown(self._mask, 64, fill=1)
        positions = model_kwargs.get("position_ids")
        self._positions = positions[..., -1:].clone() if positions is not None else None

    def next(self, history: torch.Tensor) -> Any:
        self._columns += 1
        inputs: dict[str, Any] = {"input_ids": history[:, -1:].contiguous(), "past_key_values": self._cache}
        if self._mask is not None:
            if self._columns > self._mask.shape[1]:
                self._mask = _grown(self._mask, self._columns, fill=1)
            inputs["attention_mask"] = self._mask[:, : self._columns]
        if self._positions is not None:
            self._positions = self._positions + 1
            inputs["position_ids"] = self._positions
        return self._model(**inputs, use_cache=True, return_dict=True)


class _PreparedForward:
    """Calls the model through its own input preparation, for models and caches that need it."""

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


def _forward_of(model: Any, history: torch.Tensor, outputs: Any, config: Any, model_kwargs: dict[str, Any]) -> _Forward:
    own = type(model).prepare_inputs_for_generation is GenerationMixin.prepare_inputs_for_generation
    own &= not model.is_remote_code()
    plain = type(model_kwargs.get("past_key_values")) is DynamicCache and set(model_kwargs) <= _PLAIN_INPUTS
    if own and plain and model_kwargs.get("use_cache", True) and not model.config.is_encoder_decoder:
        return _DirectForward(model, history, model_kwargs)
    return _PreparedForward(model, outputs, config, model_kwargs)


def _grown(rows: torch.Tensor, by: int, *, fill: int = 0) -> torch.Tensor:
    """Return ``rows`` ``[n, length]`` with ``by`` more columns of ``fill``."""
    tail = torch.full((rows.shape[0], by), fill, dtype=rows.dtype, device=rows.device)
    return torch.cat([rows, tail], dim=-1)
