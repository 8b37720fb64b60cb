"""The drafts that a call asks for, in transformers' words, checked."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass
from typing import Any

from guided.engine.engine import Engine
from guided.hf.model.context import ModelContext
from special_tokens.errors import RequestError, shown

__all__ = ["DraftSettings", "draft_settings", "say_once"]

log = logging.getLogger("guided")

_said: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()

_HINT = "model.generate takes assistants with other tokenizers (docs/generate.md)"

#: Guesses of one draft that an assistant makes, at most; as in transformers.
_ASSISTANT_TOKENS = 20


@dataclass(frozen=True)
class DraftSettings:
    """``num_tokens``: guesses of one draft, at most.  ``assistant`` makes them; None: they are looked up."""

    num_tokens: int
    assistant: Any = None


def draft_settings(
    prompt_lookup_num_tokens: object, assistant_model: Any, context: ModelContext
) -> DraftSettings | None:
    """Return the drafts that a call asks for; None if it asks for none.

    Raises `RequestError` for a wrong value, and for an assistant whose vocabulary is not that of ``context``.  Its
    tokens are compared where it is a guide, whose embedding may be padded otherwise: a model alone shows only its size.
    """
    if assistant_model is not None:
        if prompt_lookup_num_tokens is not None:
            raise RequestError("prompt_lookup_num_tokens is there as well", place="assistant_model",
                               expected="one of the two")  # fmt: skip
        guide = getattr(assistant_model, "context", None)
        if isinstance(guide, ModelContext):
            _check_tokens(guide.engine, context.engine)
            assistant_model = guide.model
        else:
            _check_size(assistant_model, context.model)
        return DraftSettings(_ASSISTANT_TOKENS, assistant_model)
    if prompt_lookup_num_tokens is None:
        return None
    number = prompt_lookup_num_tokens
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise RequestError(
            f"{shown(number)} is out of range", place="prompt_lookup_num_tokens", expected="an integer of 1 or more"
        )
    return DraftSettings(number)


def _check_size(assistant: Any, model: Any) -> None:
    try:
        size, right = (owner.get_input_embeddings().weight.shape[0] for owner in (assistant, model))
    except (AttributeError, NotImplementedError):
        raise RequestError(
            f"{type(assistant).__name__} is not a model", place="assistant_model", expected="a causal language model"
        ) from None
    if size != right:
        raise RequestError(
            f"the assistant has {size} tokens, the model {right}",
            place="assistant_model",
            expected="a model with the same vocabulary",
            hint=f"pass a guide of it, whose tokens are compared; {_HINT}",
        )


def _same_tokens(_: Engine) -> weakref.WeakSet[Engine]:
    """Return the assistants of which all tokens are those of an engine, for `Engine.derived`: none so far."""
    return weakref.WeakSet()


def _check_tokens(assistant: Engine, model: Engine) -> None:
    compared = model.derived(_same_tokens)
    if assistant is model or assistant in compared:
        return
    for token in range(max(assistant.vocab_size, model.vocab_size)):
        assistant_bytes, right = (engine.token_bytes(token) for engine in (assistant, model))
        if assistant_bytes != right:
            raise RequestError(
                f"token {token} is {shown(assistant_bytes)} for the assistant, {shown(right)} for the model",
                place="assistant_model",
                expected="a model with the same vocabulary",
                hint=_HINT,
            )
    compared.add(assistant)


def say_once(model: Any, note: str) -> None:
    """Log ``note``, once for a model."""
    said = _said.setdefault(model, set())
    if note not in said:
        said.add(note)
        log.warning("%s", note)
