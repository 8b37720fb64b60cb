"""Warn of fields in a generation config that can forbid tokens which a grammar requires.

Their processors run before ours, and a custom processor only sees scores of -inf.  So the grammar wins where they leave
no legal token (`guided.hf.masks.apply`), and a warning is logged once.  The fields are not switched off: rows without a
plan must behave as without guided.

An ``eos_token_id`` that is ordinary text is worse: ``generate`` ends a row wherever that text occurs, and no processor
can prevent it.  This is logged as well.
"""

from __future__ import annotations

import logging
from typing import Any

from guided.hf.model.tokenizer import eos_ids
from special_tokens import SpecialTokens

__all__ = ["conflicts", "text_ends", "warn_of_conflicts"]

log = logging.getLogger("guided")

#: Field -> its effect on legal tokens.
FIELDS = {
    "min_new_tokens": "forbids every end before that many tokens",
    "min_length": "forbids every end before that length",
    "suppress_tokens": "forbids these tokens everywhere",
    "begin_suppress_tokens": "forbids these tokens at the beginning",
    "bad_words_ids": "forbids these tokens everywhere",
    "no_repeat_ngram_size": "forbids what JSON repeats: keys, quotes, separators",
    "encoder_no_repeat_ngram_size": "forbids what the prompt contains",
    "forced_bos_token_id": "forbids all but one token at the beginning",
    "forced_eos_token_id": "forbids all but the end as the last token",
    "sequence_bias": "may forbid tokens by a bias of -inf",
}

_warned: set[tuple[str, ...]] = set()
_warned_ends: set[tuple[int, ...]] = set()


def conflicts(config: Any) -> dict[str, str]:
    """Return the fields that ``config`` sets, each with its effect on legal tokens."""
    return {name: effect for name, effect in FIELDS.items() if _is_set(getattr(config, name, None))}


def _is_set(value: Any) -> bool:
    if hasattr(value, "tolist"):  # ids as a tensor, which does not compare with `in`
        value = value.tolist()
    return value not in (None, 0, [], {})


def text_ends(config: Any, tokens: SpecialTokens) -> tuple[int, ...]:
    """Return the ids at which ``generate`` ends a row although they are ordinary text."""
    return tuple(i for i in eos_ids(getattr(config, "eos_token_id", None)) if i not in tokens.added)


def warn_of_conflicts(config: Any, tokens: SpecialTokens) -> None:
    """Log which settings of a generation config guidance overrides or cannot prevent, once per set of them."""
    texts, ends = conflicts(config), text_ends(config, tokens)
    if texts and tuple(texts) not in _warned:
        _warned.add(tuple(texts))
        fields = "; ".join(f"{name} {effect}" for name, effect in texts.items())
        log.warning("the model's generation config sets %s. Where no legal token is left, the grammar wins.", fields)
    if ends and ends not in _warned_ends:
        _warned_ends.add(ends)
        log.warning(
            "the model's generation config names %s in eos_token_id, which are ordinary text: generate cuts every "
            "answer that contains them, in the middle of JSON as well, and guidance cannot prevent it. Take them out "
            "of model.generation_config.eos_token_id.",
            ", ".join(map(str, ends)),
        )
