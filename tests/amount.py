"""How much of a large law the default run looks at: an even part of it.  `make test-slow` looks at all.

What is left to the slow run is more of the same: each promise keeps a test in the default run, by the same judge, but
for what the embedded model says by itself (test_harmless.py, test_portfolio.py and the pages),
which takes minutes where processors are starved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["EVERYTHING", "examples", "some"]

#: Set by `make test-slow`, for what no mark can say.
EVERYTHING = os.environ.get("GUIDED_TESTS") == "everything"


def examples(number: int, part: int = 4) -> settings:
    """Hypothesis looks at ``number`` examples; the default run at one in ``part``, but never at fewer than 3."""
    return settings(max_examples=number if EVERYTHING else max(3, number // part), deadline=None)


def some(values: Iterable[Any], number: int, *, rows: bool = False) -> list[Any]:
    """The values as parameters: ``number`` of them, evenly spread, for the default run, the others for the slow one.

    ``rows``: each value is a tuple of several parameters.
    """
    every = list(values)
    chosen = {i * len(every) // number for i in range(number)}
    return [
        value if i in chosen else pytest.param(*(value if rows else (value,)), marks=pytest.mark.slow)
        for i, value in enumerate(every)
    ]
