"""Detect where a new call of ``generate`` begins, from the token histories that it shows to its hooks alone.

A call shows its prompts first and then one more token at each step.  Beam search also permutes rows; assisted decoding
shows draft tokens and takes some of them back, but never tokens that the stopping criterion has been shown.  A history
that continues the last one in none of these ways begins a new call.  An answer that is passed in again as a prompt,
exactly as it was cut, continues the old call, since nothing distinguishes it; the result is the same, because a row
depends only on the tokens after its prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from special_tokens.errors import PlanError

__all__ = ["Shown", "at_once", "is_new_call"]


@dataclass(frozen=True, slots=True)
class Shown:
    """The histories that a call has shown so far.

    ``ids`` int64 ``[rows, length]`` is the last history that the rows have read, ``prompt_len`` the length of its
    prompts (None: no call has begun) and ``expand`` the number of rows per prompt.  ``settled`` is the length of the
    history that the criterion was asked about last (0: not yet in this call); ``is_asked``: it was asked since the
    last step, about the history that the next step must show.
    """

    ids: Ids
    prompt_len: int | None
    settled: int
    is_asked: bool
    expand: int

    def begins(self, ids: Ids, size: int) -> bool:
        """Whether ``ids`` and the last history share their first ``size`` columns."""
        if len(ids) != len(self.ids) or min(ids.shape[1], self.ids.shape[1]) < size:
            return False
        return bool((ids[:, :size] == self.ids[:, :size]).all())

    def is_window(self, ids: Ids) -> bool:
        """Whether ``ids`` are the last tokens of the history and one more."""
        same, size = ids.shape[1] - 1, self.ids.shape[1]
        if not same or same > size or len(ids) != len(self.ids):
            return False
        return bool((self.ids[:, size - same :] == ids[:, :same]).all())

    def has_parents(self, ids: Ids) -> bool:
        """Whether each row of ``ids`` goes on from a row of the history."""
        shown = {row.tobytes() for row in self.ids}
        return all(row.tobytes() in shown for row in ids[:, : self.ids.shape[1]])


def is_new_call(shown: Shown, prompts: Prompts, ids: Ids, *, is_step: bool) -> bool:
    """Whether ``ids`` int64 ``[rows, length]`` are the prompts of a new call, and not a history of the running one.

    ``is_step``: the logits processor is shown them.  The stopping criterion is shown the result of a step, so for it
    only other prompts begin a call.  Raises `PlanError` for histories that do not begin with their prompt, and for
    drafts that cannot be distinguished from a prompt.
    """
    length, size, prompt = ids.shape[1], shown.ids.shape[1], shown.prompt_len
    is_bound = prompts.ids is not None
    if prompt is None or length <= prompt or not shown.begins(ids, prompt):
        if prompt is not None and not is_bound and not shown.is_asked and shown.is_window(ids):
            raise PlanError(
                "the history that a row shows does not begin with its prompt",
                place="generate",
                expected="whole rows, in their number and order of the first step",
            )
        return True
    if not is_step or (is_bound and not prompts.fit(ids)):
        return False
    if length > size + 1:
        return True
    if shown.expand > 1:
        return length != (shown.settled if shown.is_asked else size + 1) or not shown.has_parents(ids)
    if shown.is_asked:
        return length != shown.settled or not shown.begins(ids, min(size, length))
    if is_bound:
        return False
    if shown.settled:
        return length < shown.settled or not shown.begins(ids, shown.settled)
    if not shown.begins(ids, size):
        raise PlanError(
            "a history does not go on from the one before it: a new prompt, or drafts that were taken back",
            place="batch",
            expected="the stopping_criteria of guide.batch together with its logits_processor",
            hint="pass both, or give the prompts to guide.batch",
        )
    return False


def at_once() -> PlanError:
    """Return the error for two calls that use the same session at once."""
    return PlanError(
        "two calls of generate use the same batch at once",
        place="batch",
        expected="one call after the other",
        hint="call guide.batch for each thread; guide and plans may be shared",
    )


Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prompts:
    """``number`` prompts, ``ids`` unpadded and ``padded`` as ``generate`` gets them; all None for any prompts."""

    number: int | None
    ids: Sequence[Sequence[int]] | None = None
    padded: Sequence[Sequence[int]] | None = None

    def expand_of(self, num_rows: int, prompts: Sequence[Sequence[int]]) -> int:
        """Return how many of ``num_rows`` rows continue one of ``prompts``."""
        return num_rows // self.number if self.number else _run_length(prompts)

    def fit(self, ids: Ids) -> bool:
        """Whether a call whose rows are ``ids`` int64 ``[rows, length]`` has these prompts."""
        if len(ids) % (self.number or len(ids)):
            return False
        if self.ids is None or self.padded is None:
            return True
        expand = len(ids) // len(self.ids)
        return all(
            _is_tail(row, self.padded[r // expand]) or _is_tail(self.ids[r // expand], row)
            for r, row in enumerate(ids.tolist())
        )

    def refuse(self, ids: Ids) -> None:
        """Raise the `PlanError` that says why these rows do not `fit`."""
        if self.number and len(ids) % self.number:
            expected = f"a multiple of the {self.number} prompts"
            raise PlanError(f"{len(ids)} rows are generated", place="batch", expected=expected)
        raise PlanError(
            "these rows do not end with the prompts of the batch",
            place="batch",
            hint="make a batch for each list of prompts; an assistant model needs the same tokenizer",
        )


def _run_length(prompts: Sequence[Sequence[int]]) -> int:
    """Return how many rows continue one prompt, as runs of equal prompts show it.

    Two requests with the same prompt look like one with more rows, which makes no difference: they have the same plan.
    """
    return gcd(*(len(list(run)) for _, run in groupby(map(tuple, prompts))))


def _is_tail(tail: Sequence[int], whole: Sequence[int]) -> bool:
    return len(tail) <= len(whole) and list(whole[len(whole) - len(tail) :]) == list(tail)
