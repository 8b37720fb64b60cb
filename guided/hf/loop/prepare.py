"""Prepare a call of the decode loop with ``generate``'s own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache
from transformers.generation import EosTokenCriteria, MaxLengthCriteria

from guided.hf.cache.kv_cache import AppendKV, KVCache, RowKV
from guided.hf.cache.packed_kv import PackedKV
from guided.hf.cache.packing import packs
from guided.hf.cache.self_test import abilities_of
from guided.hf.cache.step_kv import PLAIN_INPUTS, StepKV, cache_of
from guided.hf.drafts.cost import measured_cost
from guided.hf.generate.inputs import Inputs
from guided.hf.loop.capacity import Capacity
from guided.hf.loop.row_loop import RowLoop
from guided.hf.loop.row_masks import RowMasks
from guided.hf.model.context import ModelContext
from guided.hf.model.tokenizer import first_line
from special_tokens.errors import ModelError

__all__ = ["Prepared", "own_loop", "prepare", "shared_loop"]

#: The longest of even prompts has this many times the tokens of the shortest, at most.
_MAX_LENGTH_RATIO = 1.1

#: Settings with which ``generate`` neither samples nor searches itself.
_NEUTRAL: dict[str, Any] = {
    "do_sample": False,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 50,
    "min_p": None,
    "repetition_penalty": 1.0,
    "num_beams": 1,
    "num_return_sequences": 1,
}


@dataclass(frozen=True)
class Prepared:
    """A prepared call and its cache, for which ``processors`` of the model's generation config are.

    ``off`` says why rows of this call are not kept, and ``why_alone`` why they cannot join a loop with others; both are
    empty if they are, and can.
    """

    cache: KVCache | StepKV
    processors: list[Any] = field(default_factory=list)
    off: str = ""
    why_alone: str = ""


def prepare(context: ModelContext, inputs: Inputs, max_tokens: int, *, is_free: bool = False) -> Prepared:
    """Prepare a call of at most ``max_tokens`` new tokens for ``inputs`` as ``generate`` does.

    ``is_free``: no row has a plan that may force tokens.  Raises `ModelError` for a generation config that adds
    stopping criteria.
    """
    ends = list(context.tokens.end_ids) or None
    try:
        ids, processors, criteria, config, kwargs = context.model.generate(
            **inputs, **_NEUTRAL, max_new_tokens=max_tokens, eos_token_id=ends, pad_token_id=context.pad_id,
            custom_generate=_handed_out,
        )  # fmt: skip
    except (ValueError, TypeError, ImportError) as error:
        raise ModelError(
            f"generate cannot be prepared: {first_line(error)}",
            place="generation_config",
            hint="unset this in model.generation_config; stop strings are asked for with stop=",
        ) from error
    added = [part for part in criteria if not isinstance(part, EosTokenCriteria | MaxLengthCriteria)]
    if added:
        name, hint = type(added[0]).__name__, "unset it, or use model.generate(**guide.batch(...))"
        raise ModelError(f"only model.generate stops by {name}", place="generation_config", hint=hint)
    step = StepKV(context.model, ids, config, kwargs)
    why = _own_way(kwargs, config, processors)
    if why:
        off = f"decoded step by step: {why}"
        return Prepared(step, list(processors), off, off)
    model, abilities = context.model, abilities_of(context.model)
    if abilities.ragged:
        lengths = [len(ids) for ids in inputs.prompt_ids]
        is_even = is_free and max(lengths) <= _MAX_LENGTH_RATIO * min(lengths)
        # One row is fed as the model's own generate feeds it, to the bit.
        is_packed = len(lengths) > 1 and packs(model, is_even=is_even)
        return Prepared(PackedKV(model, 0) if is_packed else RowKV(model, 0))
    why = "; ".join(abilities.notes) or "this model is decoded step by step"
    if abilities.crop and inputs.num_rows == 1:
        return Prepared(RowKV(model, 0), why_alone=why)
    if abilities.several and inputs.num_rows == 1:
        return Prepared(AppendKV(model, 0), off="" if abilities.snapshot else why, why_alone=why)
    return Prepared(step, off=why, why_alone=why)


def own_loop(context: ModelContext, prepared: Prepared, inputs: Inputs) -> RowLoop:
    """Return the loop of one call alone."""
    device = inputs["input_ids"].device
    return RowLoop(prepared.cache, RowMasks(context.engine, device), device, context.pad_id, prepared.processors)


def shared_loop(context: ModelContext, *, rows: int, cached_tokens: int, piece: int | None = None) -> RowLoop:
    """Return a loop that rows of several calls join (`Generation.join`), ``rows`` at most at once.

    Prompts are fed in pieces while other rows run, of ``piece`` tokens or as large as they cost little.  Where more
    than ``cached_tokens`` tokens of prompts and answers would be cached, the newest row is taken out and goes on later.
    Raises `ModelError` for a model whose rows cannot differ in length: its calls run one by one.
    """
    model, abilities = context.model, abilities_of(context.model)
    if not abilities.ragged:
        reason = "; ".join(abilities.notes) or "this model is decoded step by step"
        raise ModelError(reason, place="model", expected="a model whose rows may differ in length")
    device = model.get_input_embeddings().weight.device
    capacity = Capacity(rows, cached_tokens, measured_cost(model), piece)
    cache = PackedKV(model, 0) if packs(model) else RowKV(model, 0)
    return RowLoop(cache, RowMasks(context.engine, device), device, context.pad_id, capacity=capacity)


def _own_way(kwargs: Mapping[str, Any], config: Any, processors: Sequence[Any]) -> str:
    """Return what in the generation config asks for ``generate``'s own way of decoding; "" if nothing does."""
    if processors:
        return f"the generation config adds {', '.join(dict.fromkeys(type(part).__name__ for part in processors))}"
    if not kwargs.get("use_cache", True):
        return "use_cache is false"
    if config.prefill_chunk_size is not None:
        return "prefill_chunk_size is set"
    cache = cache_of(kwargs)
    if type(cache) is not DynamicCache:
        return "the model has no KV cache of its own" if cache is None else f"the cache is a {type(cache).__name__}"
    others = set(kwargs) - PLAIN_INPUTS
    return f"the model takes {', '.join(sorted(others))} as well" if others else ""


def _handed_out(
    model: Any, input_ids: torch.Tensor, logits_processor: Any, stopping_criteria: Any, generation_config: Any,
    **model_kwargs: Any,
) -> Any:  # fmt: skip
    """Return what ``generate`` has prepared instead of generating."""
    return input_ids, logits_processor, stopping_criteria, generation_config, model_kwargs
