"""Marks of cases: left to the slow run (table rows, seeds, examples), or in need of newer packages; and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

import pytest
from hypothesis import settings
from packaging.version import Version

__all__ = ["costly", "many", "seeds", "since_transformers", "slow_where", "wait_until"]

#: Hypothesis looks at a quarter of the examples of the profile: for tests that take long over each.
costly = settings(max_examples=settings().max_examples // 4)
#: For tests that take milliseconds over each: 200 examples, 2,000 in the slow profile.
many = settings(max_examples=200 if settings().max_examples < 200 else 2_000)


def seeds(number: int, *, default: int) -> list[Any]:
    """Return the seeds 0 to ``number`` - 1 of random cases; those from ``default`` on are marked slow."""
    return [seed if seed < default else pytest.param(seed, marks=pytest.mark.slow) for seed in range(number)]


def slow_where(is_slow: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Return the values, or tuples of them, as parameters; those that ``is_slow`` is true of are marked slow."""
    slow = pytest.mark.slow
    return [
        value if not is_slow(value) else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=slow)
        for value in values
    ]


def since_transformers(version: str, why: str) -> pytest.MarkDecorator:
    """Skip with older releases of transformers, which differ in ``why``."""
    found = metadata.version("transformers")
    return pytest.mark.skipif(Version(found) < Version(version), reason=f"transformers {found}, not {version}: {why}")


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)
