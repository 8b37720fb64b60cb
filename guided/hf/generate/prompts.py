"""The prompts that a session was made for, and whether a call of ``generate`` is one of theirs."""

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
    """``number`` prompts, ``ids`` unpadded and ``padded`` as ``generate`` gets them; all None for whatever comes.

    ``expand`` is how many rows continue each, None for as many as come.
    """

    number: int | None
    ids: Sequence[Sequence[int]] | None = None
    padded: Sequence[Sequence[int]] | None = None
    expand: int | None = None

    def expand_of(self, num_rows: int, prompts: Sequence[Sequence[int]]) -> int:
        """Return how many of ``num_rows`` rows continue one of ``prompts``."""
        return num_rows // self.number if self.number else _run_length(prompts)

    def fit(self, ids: Ids) -> bool:
        """Whether these rows, int64 ``[rows, length]``, are of a call with these prompts."""
        if not self._fit_rows(len(ids)):
            return False
        if self.ids is None or self.padded is None:
            return True
        expand = len(ids) // len(self.ids)
        return all(
            _is_tail(row, self.padded[r // expand]) or _is_tail(self.ids[r // expand], row)
            for r, row in enumerate(ids.tolist())
        )

    def _fit_rows(self, num_rows: int) -> bool:
        expand, rest = divmod(num_rows, self.number or num_rows)
        return rest == 0 and expand == (self.expand or expand or 1)

    def refuse(self, ids: Ids) -> None:
        """Raise `PlanError`: what is wrong with the rows of a call that do not `fit`."""
        if not self._fit_rows(len(ids)):
            planned = (self.number or 1) * (self.expand or 1)
            raise PlanError(
                f"{len(ids)} rows are generated, {planned} were planned",
                place="generate_kwargs",
                hint="expand is num_return_sequences or num_beams; without it any number will do",
            )
        raise PlanError(
            "these rows do not end with the prompts that the kwargs were made for",
            place="generate_kwargs",
            hint="call guide.generate_kwargs for each inputs; an assistant model needs the same tokenizer",
        )


def _run_length(prompts: Sequence[Sequence[int]]) -> int:
    """Return how many rows continue one prompt where that is not stated: equal neighbours do.

    Two requests with one prompt and one plan may share their rows as well.
    """
    return gcd(*(len(list(run)) for _, run in groupby(map(tuple, prompts))))


def _is_tail(tail: Sequence[int], whole: Sequence[int]) -> bool:
    return len(tail) <= len(whole) and list(whole[len(whole) - len(tail) :]) == list(tail)
