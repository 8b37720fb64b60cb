"""Warn of fields in a generation config that can forbid tokens which a grammar requires.

Their logits processors run before ours, which sees only the scores of -inf that they leave.  Where no legal token is
left, the grammar wins (`guided.hf.masks.apply`), and a warning is logged once.  The fields are not switched off: rows
without a plan must behave as without guided.

An ordinary token in ``eos_token_id`` is worse: ``generate`` ends a row at it wherever it occurs, and no processor can
prevent that.  This is logged as well.
"""

from __future__ import annotations

import logging
from typing import Any

from guided.hf.model.tokenizer import eos_ids
from special_tokens import SpecialTokens

__all__ = ["conflicts", "warn_of_conflicts"]

log = logging.getLogger("guided")

#: Field -> its effect on legal tokens.
_FIELDS = {
    "min_new_tokens": "forbids ending before that many new tokens",
    "min_length": "forbids ending before that length, the prompt included",
    "suppress_tokens": "forbids these tokens everywhere",
    "begin_suppress_tokens": "forbids these tokens at the beginning",
    "bad_words_ids": "forbids these token sequences everywhere",
    "no_repeat_ngram_size": "forbids what JSON repeats: keys, quotes, separators",
    "encoder_no_repeat_ngram_size": "forbids what the prompt contains",
    "forced_bos_token_id": "forces one token at the beginning",
    "forced_eos_token_id": "forces EOS as the last token",
    "sequence_bias": "may forbid tokens by a bias of -inf",
}

_warned: set[tuple[str, ...]] = set()
_warned_ends: set[tuple[int, ...]] = set()


def conflicts(config: Any) -> dict[str, str]:
    """Return the fields that ``config`` sets, each with its effect on legal tokens."""
    return {name: effect for name, effect in _FIELDS.items() if _is_set(getattr(config, name, None))}


def _is_set(value: Any) -> bool:
    if hasattr(value, "tolist"):  # ids as a tensor, which does not compare with `in`
        value = value.tolist()
    return value not in (None, 0, [], {})


def warn_of_conflicts(config: Any, tokens: SpecialTokens) -> None:
    """Log, once per set of fields, what a generation config can forbid, and ends that guidance cannot prevent."""
    effects = conflicts(config)
    ends = tuple(i for i in eos_ids(getattr(config, "eos_token_id", None)) if i not in tokens.added)
    if effects and tuple(effects) not in _warned:
        _warned.add(tuple(effects))
        fields = "; ".join(f"{name} {effect}" for name, effect in effects.items())
        log.warning(
            "the model's generation config can forbid legal tokens: %s. If it forbids all of them, the grammar wins.",
            fields,
        )
    if ends and ends not in _warned_ends:
        _warned_ends.add(ends)
        log.warning(
            "the model's generation config has ordinary tokens in eos_token_id (%s): generate stops at each of them, "
            "even in the middle of JSON, and guidance cannot prevent it. Remove them from "
            "model.generation_config.eos_token_id.",
            ", ".join(map(str, ends)),
        )
