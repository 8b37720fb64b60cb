"""The law `harmless`: a valid answer that the embedded model writes unguided is the same under guidance.

A sample; benchmarks/harmless_model.py asks more and prints the causes.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.conftest import load_script


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script("benchmarks/harmless_model.py")


def of_kind(script: Any, kind: str, count: int) -> list[Any]:
    return [request for request in script.requests(count) if request.kind == kind]


@pytest.mark.slow
def test_valid_answers_are_unchanged(script: Any, demo_guide: Any) -> None:
    results = script.answer(demo_guide, of_kind(script, "extraction", 3), 32)
    assert sum(result.is_valid for result in results) >= 2
    for result in results:
        if result.is_valid:
            assert (result.is_unchanged, result.cause, result.overridden) == (True, "", 0), result.free


@pytest.mark.slow
def test_plain_text_is_unchanged(script: Any, demo_guide: Any) -> None:
    for result in script.answer(demo_guide, of_kind(script, "plain text", 2), 24):
        assert (result.is_unchanged, result.cause, result.overridden) == (True, "", 0), result.free


@pytest.mark.slow
def test_what_changes_a_valid_answer_is_named_and_explained(script: Any, demo_guide: Any) -> None:
    """JSON over several lines is valid and not how our masks spell it."""
    (result,) = script.answer(demo_guide, of_kind(script, "extraction, indented", 1), 32)
    assert result.is_valid
    assert not result.is_unchanged
    assert result.cause == "white space" in script.EXPLAINED
    assert result.overridden > 0


@pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="bfcl-eval is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("choice", ["auto", "must"])
def test_valid_calls_are_unchanged(script: Any, demo_guide: Any, choice: str) -> None:
    """The embedded model calls functions where it was shown how, and then token by token as our masks spell calls."""
    results = script.answer(demo_guide, of_kind(script, f"call, examples, {choice}", 2), 40)
    assert sum(result.is_valid and result.is_call for result in results) >= 1
    for result in results:
        if result.is_valid:
            assert (result.is_unchanged, result.cause, result.overridden) == (True, "", 0), result.free
