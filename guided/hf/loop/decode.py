"""Our own decode loop, plugged into ``generate`` as a ``custom_generate`` callable.

``generate`` prepares everything (cache, processors, criteria); the loop here is a generator of steps, so that a
caller can stream, stop early, or drain it.  Greedy tokens are those of ``generate``.  The history is one buffer that
grows in place, and where the model uses transformers' own input preparation the forward is called directly; other
models and caches take transformers' way, step by step.
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

__all__ = ["Step", "Watch", "decode", "decode_steps", "start"]

#: What a model's inputs may hold for the forward to be called directly.
_PLAIN_INPUTS = {"attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}


#: What ``generate`` can return beside the sequences, where it is asked to return an object.
_OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``tokens[r]`` is what row ``r`` wrote, ``live[r]`` is false where the row had ended before."""

    tokens: list[int]
    live: list[bool]


class Streamer(Protocol):
    """transformers' streamers: they get the prompt, then the tokens of each step."""

    def put(self, value: torch.Tensor) -> None: ...

    def end(self) -> None: ...


@dataclass
class Watch:
    """What one call of the loop uses and fills beside transformers' own parts.

    ``sampler`` None: the processors prepared by ``generate`` decide alone, as in ``generate``.  ``max_tokens`` ends
    rows one by one, where not all may write as much.  ``errors`` holds what ended single rows: logits that are no
    numbers.
    """

    sampler: BatchSampler | None = None
    max_tokens: Sequence[int] | None = None
    recorder: Recorder | None = None
    streamer: Streamer | None = None
    errors: dict[int, GuidanceError] = field(default_factory=dict)


def start(model: Any, inputs: Any, watch: Watch | None = None, **kwargs: Any) -> Iterator[Step]:
    """Let ``generate`` prepare and return the steps; nothing is computed before the first ``next``."""
    steps: Iterator[Step] = model.generate(**inputs, custom_generate=decode_steps, watch=watch, **kwargs)
    return steps


def decode(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    watch: Watch | None = None,
    **model_kwargs: Any,
) -> torch.Tensor | GenerateDecoderOnlyOutput:
    """``model.generate(..., custom_generate=decode)``: the sequences int64 ``[rows, length]``.

    With ``return_dict_in_generate`` they are ``sequences`` of transformers' output object.  Raises `RequestError` for
    settings that another loop would obey: beams, drafts, outputs beside the sequences.  ``generate`` hands a callable
    neither its ``streamer`` nor its ``assistant_model``: a streamer goes into ``watch``, see `Watch`.
    """
    _check_settings(generation_config, watch)
    loop = _Loop(model, input_ids, logits_processor, stopping_criteria, generation_config, watch or Watch())
    for _ in loop.steps(model_kwargs):
        pass
    if generation_config.return_dict_in_generate:
        cache = model_kwargs.get("past_key_values")
        return GenerateDecoderOnlyOutput(sequences=loop.history, past_key_values=cache)
    return loop.history


def _check_settings(config: Any, watch: Watch | None) -> None:
    """Raise for what this loop does not do, rather than leave it out; a caller's own sampler decides for itself."""
    if watch is not None and watch.sampler is not None:
        return
    mode = config.get_generation_mode()
    if mode not in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE):
        raise RequestError(
            f"{mode.value.replace('_', ' ')} is not done by guided's loop",
            place="custom_generate",
            expected="greedy search or sampling, one row each",
            hint="leave custom_generate out: guide.generate_kwargs works with every mode of generate",
        )
    for name in _OUTPUTS if config.return_dict_in_generate else ():
        if getattr(config, name, False):
            raise RequestError(
                f"{name} is not kept by guided's loop",
                place="custom_generate",
                hint="leave custom_generate out, or ask guide.generate for logprobs",
            )


def decode_steps(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    watch: Watch | None = None,
    **model_kwargs: Any,
) -> Iterator[Step]:
    """The steps of one static batch.  Rows finish by themselves; the loop ends with the last of them.

    Raises `RequestError` as `decode` does.
    """
    _check_settings(generation_config, watch)
    loop = _Loop(model, input_ids, logits_processor, stopping_criteria, generation_config, watch or Watch())
    return loop.steps(model_kwargs)


class _Loop:
    """One run of the loop over one batch."""

    def __init__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        watch: Watch,
    ) -> None:
        self.model = model
        self.watch = watch
        self._processor = logits_processor
        self._criteria = stopping_criteria
        self._config = generation_config
        self._pad = getattr(generation_config, "_pad_token_tensor", None)
        self._pads_rows = any(hasattr(criterion, "eos_token_id") for criterion in stopping_criteria)
        self._ids = _grown(input_ids, 64)
        self._len = int(input_ids.shape[1])
        self._unfinished = torch.ones(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        self._last = self._last_columns(watch.max_tokens)

    def _last_columns(self, max_tokens: Sequence[int] | None) -> torch.Tensor | None:
        """The history's length at which each row ends, int64 ``[rows]``; None where the criteria know it alone."""
        if max_tokens is None or len(set(max_tokens)) == 1:
            return None
        return torch.tensor(max_tokens, device=self._ids.device) + self._len

    @property
    def history(self) -> torch.Tensor:
        """Prompt and answer int64 ``[rows, length]``."""
        return self._ids[:, : self._len]

    def steps(self, model_kwargs: dict[str, Any]) -> Iterator[Step]:
        if self.watch.streamer is not None:
            self.watch.streamer.put(self.history.cpu())
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
            yield Step(written, [flag and r not in self.watch.errors for r, flag in enumerate(live)])
            live = [bool(flag) for flag in going_on]
        if self.watch.streamer is not None:
            self.watch.streamer.end()

    def _choose(self, logits: torch.Tensor) -> torch.Tensor:
        """Process the logits ``[rows, vocab]``, choose once, record."""
        raw = logits.to(copy=True, dtype=torch.float32, device=self._ids.device)
        sampler = self.watch.sampler
        # A mask may hide what the model said; one that is written in place leaves nothing to look at afterwards.
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
        if self.watch.recorder is not None:
            self.watch.recorder.record(raw, scores, tokens)
        return tokens

    def _fail(self, sound: torch.Tensor) -> None:
        """End the rows whose scores are no numbers; the others go on."""
        broken = self._unfinished & ~sound
        if bool(broken.any()):
            for r in torch.nonzero(broken).flatten().tolist():
                self.watch.errors[r] = not_numbers(f"row {r}")
            self._unfinished = self._unfinished & sound

    def _commit(self, tokens: torch.Tensor) -> tuple[list[int], list[int]]:
        """Append the step's tokens; their ids and which rows go on, in one copy to the host."""
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
        if self.watch.sampler is not None:
            self.watch.sampler.commit(host[0])
        if self.watch.streamer is not None:
            self.watch.streamer.put(tokens.cpu())
        return host[0], host[1]


class _Forward(Protocol):
    """The forward over the newest column of the history."""

    def next(self, history: torch.Tensor) -> Any: ...


class _DirectForward:
    """Calls the model as transformers' own input preparation would, without it."""

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
    """Calls the model through its own input preparation: for models and caches with ways of their own."""

    def __init__(self, model: Any, outputs: Any, config: Any, model_kwargs: dict[str, Any]) -> None:
        self._model = model
        self._call = model
        if model._valid_auto_compile_criteria(model_kwargs, config):
            self._call = model.get_compiled_call(config.compile_config)
        self._kwargs = model._update_model_kwargs_for_generation(outputs, model_kwargs)
        self._new = 1 if model_kwargs.get("use_cache", True) else None  # without a cache all is read again

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
    """``rows`` ``[n, length]`` in a buffer with room for ``by`` more columns of ``fill``."""
    tail = torch.full((rows.shape[0], by), fill, dtype=rows.dtype, device=rows.device)
    return torch.cat([rows, tail], dim=-1)
