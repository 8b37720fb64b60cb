"""Collect the hidden states that a model turns into logits: a hook sees the input of its output embeddings."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from special_tokens.errors import ModelError

__all__ = ["foreign_hooks", "head_input", "last_columns"]

#: Modules whose hooks read states and change nothing.
_READERS = (__name__, "transformers.utils.output_capturing")


@contextmanager
def head_input(model: Any, is_wanted: bool = True) -> Iterator[list[torch.Tensor]]:
    """In the block, this thread's forwards append the input of the output embeddings, ``[rows, columns, hidden]``.

    The list that the block gets stays empty unless ``is_wanted``.  Raises `ModelError` for a model without output
    embeddings.
    """
    if not is_wanted:
        yield []
        return
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if head is None:
        raise ModelError(
            f"{type(model).__name__} has no output embeddings", hint="ask for no hidden state of this model"
        )
    seen: list[torch.Tensor] = []
    thread = threading.get_ident()

    def note(_: Any, given: tuple[Any, ...]) -> None:
        if threading.get_ident() == thread:  # the hook sees the forwards of all threads
            seen.append(given[0].detach())

    hook = head.register_forward_pre_hook(note)
    try:
        yield seen
    finally:
        hook.remove()


def foreign_hooks(*hooks: Mapping[int, Any]) -> list[int]:
    """Return the numbers of the hooks that are neither `head_input`'s nor those with which transformers only reads."""
    return [n for owned in hooks for n, hook in [*owned.items()] if getattr(hook, "__module__", "") not in _READERS]


def last_columns(seen: list[torch.Tensor], keep: int) -> torch.Tensor | None:
    """Return the last ``keep`` columns of the newest states, without the memory of the others; None of no states."""
    if not seen:
        return None
    columns = seen[-1][:, -keep:]
    return columns if columns.untyped_storage().nbytes() == columns.nbytes else columns.clone()
