"""Marks for the cases that the default run leaves to the slow one: table rows, seeds, Hypothesis examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

__all__ = ["costly", "seeds", "slow_where"]

#: Hypothesis looks at a quarter of the examples of the profile: for tests that take long over each.
costly = settings(max_examples=settings().max_examples // 4)


def seeds(number: int, *, default: int) -> list[Any]:
    """Return the seeds 0 to ``number`` - 1 of random cases; those from ``default`` on are marked slow."""
    return [seed if seed < default else pytest.param(seed, marks=pytest.mark.slow) for seed in range(number)]


def slow_where(is_slow: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters; those that ``is_slow`` is true of are marked slow."""
    return [pytest.param(value, marks=pytest.mark.slow) if is_slow(value) else value for value in values]
