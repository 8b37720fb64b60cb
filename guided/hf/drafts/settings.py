"""The drafts that a call asks for, in transformers' words, checked."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass
from typing import Any

from special_tokens.errors import RequestError, shown

__all__ = ["DraftSettings", "draft_settings", "say_once"]

log = logging.getLogger("guided")

_said: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class DraftSettings:
    """``num_tokens``: guesses of one draft, at most."""

    num_tokens: int


def draft_settings(prompt_lookup_num_tokens: object) -> DraftSettings | None:
    """Return what a call asks for, None where it asks for no drafts.  Raises `RequestError`."""
    if prompt_lookup_num_tokens is None:
        return None
    number = prompt_lookup_num_tokens
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise RequestError(
            f"{shown(number)} is out of range", place="prompt_lookup_num_tokens", expected="an integer of 1 or more"
        )
    return DraftSettings(number)


def say_once(model: Any, note: str) -> None:
    """Log ``note``, once for a model."""
    said = _said.setdefault(model, set())
    if note not in said:
        said.add(note)
        log.warning("%s", note)
