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


needs_bfcl = pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="bfcl-eval is not installed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count", "size", "least"),
    [
        ("extraction", 3, 32, 2),
        ("plain text", 2, 24, 2),
        # The embedded model calls functions where it was shown how, and then token by token as our masks spell calls.
        pytest.param("call, examples, auto", 2, 40, 1, marks=needs_bfcl),
        pytest.param("call, examples, must", 2, 40, 1, marks=needs_bfcl),
        ("extraction, indented", 1, 32, 1),  # JSON over several lines is valid and not how our masks spell it
    ],
)
def test_valid_answers_are_unchanged_or_the_cause_is_named(
    script: Any, demo_guide: Any, kind: str, count: int, size: int, least: int
) -> None:
    requests = [request for request in script.requests(count) if request.kind == kind]
    results = [result for result in script.answer(demo_guide, requests, size) if result.is_valid]
    assert sum("call" not in kind or result.is_call for result in results) >= least
    for result in results:
        if "indented" in kind:
            assert (result.is_unchanged, result.cause) == (False, "white space")
            assert result.cause in script.EXPLAINED
            assert result.overridden > 0
        else:
            assert (result.is_unchanged, result.cause, result.overridden) == (True, "", 0), result.free
