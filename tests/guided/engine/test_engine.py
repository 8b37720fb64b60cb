"""Data that is derived from an engine: made once, by whichever thread comes first."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import llguidance
import pytest

from guided.engine.engine import Engine


def test_data_of_an_engine_is_derived_once(engine: Engine, plain_engine: Engine) -> None:
    made: list[Engine] = []

    def size(of: Engine) -> list[int]:
        made.append(of)
        time.sleep(0.02)  # the other threads ask meanwhile
        return [of.vocab_size]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(engine.derived, [size] * 4))
    assert made == [engine]
    assert all(each is found[0] for each in found)
    assert engine.derived(size) == [engine.vocab_size]
    assert plain_engine.derived(size) == [plain_engine.vocab_size]
    assert made == [engine, plain_engine]


def test_a_factory_may_use_what_another_one_derives(engine: Engine) -> None:
    def whole(of: Engine) -> list[bytes]:
        return [of.token_bytes(i) for i in range(of.vocab_size)]

    def longest(of: Engine) -> int:
        return max(map(len, of.derived(whole)))

    assert engine.derived(longest) == max(map(len, engine.derived(whole)))


def test_what_is_raised_by_a_long_grammar_is_raised(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled in a thread of its own, whose error was lost: an IndexError came in its place."""

    def broken(*args: Any, **options: Any) -> None:
        raise ValueError("of the engine")

    monkeypatch.setattr(llguidance, "LLMatcher", broken)
    with pytest.raises(ValueError, match="of the engine"):
        engine.compile('start: "a"\n' + "\n".join(f'r{i}: "b"' for i in range(200)))
