"""Fields of a generation config that can forbid what a grammar demands.

Their processors run before ours, and a custom processor cannot see that they are there: it sees scores of -inf.  So
the grammar wins where they leave no legal token (`guided.hf.masks.apply`), and whoever loads a model whose config carries
such fields is told once.  The fields are not switched off: rows without a plan must be as without us.

An ``eos_token_id`` that is ordinary text is worse: ``generate`` ends a row wherever the text occurs, and no processor
can prevent it.  That is told as well.
"""

from __future__ import annotations

import logging
from typing import Any

from guided.hf.model.tokenizer import eos_ids
from special_tokens import SpecialTokens

__all__ = ["conflicts", "text_ends", "warn_of_conflicts"]

log = logging.getLogger("guided")

#: Field -> what it does to a legal token.
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
    """The fields that ``config`` sets, and what each does to legal tokens."""
    return {name: effect for name, effect in FIELDS.items() if _is_set(getattr(config, name, None))}


def _is_set(value: Any) -> bool:
    if hasattr(value, "tolist"):  # ids as a tensor, whose comparison is none
        value = value.tolist()
    return value not in (None, 0, [], {})


def text_ends(config: Any, tokens: SpecialTokens) -> tuple[int, ...]:
    """The ids at which ``generate`` ends a row although they are ordinary text."""
    return tuple(i for i in eos_ids(getattr(config, "eos_token_id", None)) if i not in tokens.added)


def warn_of_conflicts(config: Any, tokens: SpecialTokens) -> None:
    """Log what in a model's generation config guidance overrides or cannot prevent, once for each set of it."""
    found, ends = conflicts(config), text_ends(config, tokens)
    if found and tuple(found) not in _warned:
        _warned.add(tuple(found))
        fields = "; ".join(f"{name} {effect}" for name, effect in found.items())
        log.warning("the model's generation config sets %s. Where no legal token is left, the grammar wins.", fields)
    if ends and ends not in _warned_ends:
        _warned_ends.add(ends)
        log.warning(
            "the model's generation config names %s in eos_token_id, which are ordinary text: generate cuts every "
            "answer that contains them, in the middle of JSON as well, and guidance cannot prevent it. Take them out "
            "of model.generation_config.eos_token_id.",
            ", ".join(map(str, ends)),
        )
