"""The prompts that a session was created for, and the check whether a call of ``generate`` has these prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from special_tokens.errors import PlanError

__all__ = ["Ids", "Prompts"]

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
