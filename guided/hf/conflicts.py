"""Fields of a generation config that can forbid what a grammar demands.

Their processors run before ours, and a custom processor cannot see that they are there: it sees scores of -inf.  So
the grammar wins where they leave no legal token (`guided.hf.apply`), and whoever loads a model whose config carries
such fields is told once.  The fields are not switched off: rows without a plan must be as without us.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["conflicts", "warn_of_conflicts"]

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


def conflicts(config: Any) -> dict[str, str]:
    """The fields that ``config`` sets, and what each does to legal tokens."""
    return {name: effect for name, effect in FIELDS.items() if getattr(config, name, None) not in (None, 0, [], {})}


def warn_of_conflicts(config: Any) -> None:
    """Log which fields of a model's generation config the grammar overrides, once for each set of fields."""
    found = conflicts(config)
    if not found or tuple(found) in _warned:
        return
    _warned.add(tuple(found))
    fields = "; ".join(f"{name} {effect}" for name, effect in found.items())
    log.warning("the model's generation config sets %s. Where no legal token is left, the grammar wins.", fields)
