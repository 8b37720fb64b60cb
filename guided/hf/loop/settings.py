"""Resolve the sampling settings of each row: the request's, else those of the model's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from guided.hf.drafts.settings import say_once
from guided.sampling import RowSampling, Sampling, per_row, resolve
from special_tokens.errors import RequestError

__all__ = ["context_size", "row_samplings", "sampling_defaults"]

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
