"""Short texts that a plan itself shows, judged by Python's regular expressions."""

from __future__ import annotations

import re
from typing import Any

import pytest

from grammars.values.constraints import JsonSchema, Regex
from guided.engine.engine import Engine
from guided.landing.known_texts import response_text, string_texts
from tests.judges.plans import plan_of

PATTERNS = [
    r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$",
    r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$",
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}Z$",
    r"é(x)?a$",
    r"^(?!.*--)[a-z][a-z0-9-]{2,30}[a-z0-9]$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_word_of_a_pattern_is_one(engine: Engine, pattern: str) -> None:
    plan = plan_of(engine, response_format=JsonSchema({"type": "string", "pattern": pattern}))
    (word,) = string_texts(plan)
    assert re.search(pattern, word)
    assert not re.search(pattern, word[:-1])


def test_one_word_is_of_all_patterns_of_a_schema(engine: Engine) -> None:
    patterns = ["[a-z]", "[A-Z]", "[0-9]", r"[^\w\s]"]
    schema: Any = {"type": "string", "minLength": 8, "allOf": [{"pattern": pattern} for pattern in patterns]}
    words = string_texts(plan_of(engine, response_format=JsonSchema(schema)))
    assert any(len(word) == 8 and all(re.search(pattern, word) for pattern in patterns) for word in words)


@pytest.mark.parametrize("pattern", [*PATTERNS, "(?i)abc[0-9]+", r"(ab|cd)*e"])
def test_a_text_of_a_regex_is_one(engine: Engine, pattern: str) -> None:
    text = response_text(plan_of(engine, response_format=Regex(pattern)))
    assert re.fullmatch(pattern, text.decode())
