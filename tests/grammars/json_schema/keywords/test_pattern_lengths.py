"""Patterns and formats with length bounds: what allows a string compiles, and the masks enforce both."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from grammars.json_schema.document.string_formats import FORMATS
from special_tokens.errors import SchemaError
from tests.cases import seeds
from tests.judges.schema_masks import Judge

#: For many of these, with a length bound, the engine's compiler does not find whether a string is left.
PATTERNS = [
    r"^[a-z]+(\.[a-f]{1,})+$",
    r"^[a-z]+(\.[a-f]{3,})+$",
    r"^[a-z]+(/[a-z]+-[a-f]{3})+$",
    r"^[a-z]+(/abcdefgh[a-f])+$",
    r"^[a-z]*(/[a-f]{8})+$",
    r"^[a-z]+(/[a-f]{6}){2,}$",
    r"^a(/[a-f]{36})+$",
    r"^[a-z_-]*$",
    r"^x-[a-z]+$",
    r"^[a-z]{2,7}[0-9]{3}$",
    r"[a-z]+",
    r"^(ab|cd)[0-9]+z$",
    r"^(ab|c)[0-9]+$",
    r"^\d{3}-[^\n]*!$",
    r"^\s*\S+$",
]
LENGTHS: list[dict[str, int]] = [
    {"maxLength": 9},
    {"maxLength": 100},
    {"minLength": 1, "maxLength": 2048},
    {"minLength": 20},
    {"minLength": 100, "maxLength": 2048},
    {"minLength": 12, "maxLength": 12},
]


def words(pattern: str, chance: random.Random) -> list[str]:
    """Strings near to the pattern: pieces of what it is made of."""
    pieces = [*"abcz/-1! ", "ab", "cd", "/abcdef", "/abcdefgha", "/abcdefab", ".abc", ".a", "x-", "123", "/a-abc"]
    pieces.append("/" + "a" * 36)
    return [
        "".join(chance.choices(pieces, k=chance.randint(1, size))) for size in (1, 2, 3, 4, 6, 9, 20) for _ in "1234"
    ]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_next_to_a_length_keeps_both(judge: Judge, pattern: str) -> None:
    chance = random.Random(pattern)
    for bounds in LENGTHS:
        schema = {"type": "string", "pattern": pattern, **bounds}
        try:
            compiled = judge.compiled(schema)
        except SchemaError as error:
            assert "no value satisfies" in str(error)
            assert not any(fits(word, pattern, bounds) for word in words(pattern, chance))
            continue
        assert not compiled.plan.schema_report.relaxed
        for word in words(pattern, chance):
            assert compiled.accepts(json.dumps(word)) == fits(word, pattern, bounds), (bounds, word)


def fits(word: str, pattern: str, bounds: dict[str, Any]) -> bool:
    least, most = bounds.get("minLength", 0), bounds.get("maxLength", len(word))
    return least <= len(word) <= most and re.search(pattern, word) is not None


@pytest.mark.parametrize(
    "bounds",
    [
        {"minLength": 60},
        {"minLength": 30, "maxLength": 90},
        *(pytest.param(bounds, marks=pytest.mark.slow) for bounds in ({"minLength": 3}, {"maxLength": 40})),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_next_to_a_length_compiles(judge: Judge, name: str, bounds: dict[str, int]) -> None:
    try:
        judge.compiled({"type": "string", "format": name, **bounds})
    except SchemaError as error:
        assert "no value satisfies" in str(error)


_RUNS = [
    (r"\S", r"\s"),
    ("[a-z]", "[0-9]"),
    ("[^,]", ","),
    ("[^ ]", " "),
    (r"\w", r"\W"),
    ("[a-z]", "[ -]"),
    (r"\d", r"\D"),
]


@pytest.mark.parametrize("seed", seeds(20, default=2))
def test_so_many_words_and_no_more(judge: Judge, seed: int) -> None:
    chance = random.Random(f"words {seed}")
    for _ in range(20):
        word, between = chance.choice(_RUNS)
        pattern = f"(?:{word}+{between}+){{0,{chance.choice([1, 2, 9, 19, 49, 100])}}}{word}+"
        pattern = chance.choice([f"^{pattern}$", f"^$|(^{pattern}$)"])
        least = chance.choice([0, 1])
        bounds = {"minLength": least, "maxLength": least + chance.choice([1, 5, 30, 500, 5_000])}
        schema = {"type": "string", "pattern": pattern, **bounds}
        compiled = judge.compiled(schema)
        for _ in range(6):
            text = "".join(chance.choices("ab1, -", k=chance.randint(0, 12)))
            assert compiled.accepts(json.dumps(text)) == fits(text, pattern, bounds), (schema, text)
