"""How much of the tests the default run looks at: an even part.  `make test-slow` looks at all.

What is left to the slow run is more of the same: each promise keeps a test in the default run, by the same judge, but
for what the embedded model says by itself (test_harmless.py, test_portfolio.py, the pages, most of test_trace.py),
which takes minutes where processors are starved.

A table of cases is cut for the default run to `CASES`, evenly spread, unless it bears the mark ``every_case``, a test
is named on the command line, or ``GUIDED_TESTS=everything`` is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["CASES", "EVERYTHING", "examples", "leave_to_the_slow_run", "some"]

#: Set by `make test-slow`, for what no mark can say.
EVERYTHING = os.environ.get("GUIDED_TESTS") == "everything"

#: Cases of one test in the default run.  With all of them it takes 90 minutes where processors are starved.
CASES = 4


def examples(number: int, part: int = 8) -> settings:
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


def leave_to_the_slow_run(items: Iterable[pytest.Item]) -> None:
    """Mark as slow what of each test's cases is more than `CASES`; those that stay are evenly spread."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in ("slow", "every_case")):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        number = min(CASES, len(each))
        chosen = {i * len(each) // number for i in range(number)}
        for i, item in enumerate(each):
            if i not in chosen:
                item.add_marker(pytest.mark.slow)
