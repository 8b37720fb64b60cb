"""The texts of the extraction benchmark: their gold objects are judged by jsonschema and by the texts themselves."""

from __future__ import annotations

import datetime

import jsonschema
import pytest

from benchmarks.extraction_cases import KINDS, ExtractionCase, extraction_cases, is_right, leaves, right_leaves

CASES = extraction_cases(200)
#: Values that a text states in other words than the object does.
PUT_IN_WORDS = {"remote", "answered", "method", "sky", "sentiment", "ticket_price", "gate"}


@pytest.mark.parametrize("case", CASES[:100], ids=lambda case: case.id)
def test_the_text_states_the_gold_object(case) -> None:
    jsonschema.Draft202012Validator(case.schema, format_checker=jsonschema.FormatChecker()).validate(case.gold)
    assert list(case.gold) == case.schema["required"]  # the order in which a grammar writes the keys
    for place, (_, value) in leaves(case.gold):
        if PUT_IN_WORDS & set(place.split("/")) or value == []:
            continue
        words = {str(value), f"{value:.2f}" if isinstance(value, float) else str(value)}
        if place == "/date":
            day = datetime.date.fromisoformat(value)
            words |= {f"{day.day} {day:%B} {day.year}", f"{day:%B} {day.day}, {day.year}"}
        assert any(word in case.text for word in words), (place, value, case.text)


def test_cases_do_not_depend_on_how_many_are_made_and_differ() -> None:
    assert extraction_cases(100) == CASES[:100]
    assert len({case.text for case in CASES}) == 200
    assert {case.kind for case in CASES[:10]} == set(KINDS)
    assert extraction_cases(5, seed=1) != CASES[:5]


def test_only_the_gold_object_is_right() -> None:
    gold = {"name": "Ada", "age": 1, "languages": ["English", "French"]}
    case = ExtractionCase("person_0", "person", "", {}, gold)
    assert is_right(case, dict(reversed(gold.items())))
    assert is_right(case, {**gold, "age": 1.0})
    for wrong in (None, {}, {**gold, "age": True}, {**gold, "extra": 1}, {**gold, "languages": []}):
        assert not is_right(case, wrong)
    assert right_leaves(case, {**gold, "name": "Eve"}) == (3, 4)
