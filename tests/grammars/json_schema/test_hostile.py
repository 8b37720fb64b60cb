"""Hostile schemas: each compiles or is refused with a typed error; nothing is widened silently."""

from __future__ import annotations

import pytest

from special_tokens.errors import GuidedError
from tests.judges.byte_masks import BYTES
from tests.judges.hostile import run
from tests.judges.hostile_cases import CASES, Case

#: What takes long, though a smaller case of the default run comes to the same limit or the same outcome.
LONG = {
    "a chain of 3,000",
    "oneOf of 300 required keys",
    "300 optional keys, at most 20",
    "20,000 required keys",
    "an enum of 100,000 texts",
    "an enum of 20,000 integers",
    "399,000 empty arrays in an enum",
    "thirty patternProperties distinguished only near the end",
    "200 overlapping patternProperties",
    "six patternProperties distinguished only near the end",
    "allOf of five prime repeats",
    "allOf of 12 patterns",
    "twelve patterns for keys",
    "40 overlapping patternProperties",
    "an alternation of 15,000 words",
    "a chain of 80 dependentSchemas",
    "two enums of 50,000 that share half",
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in LONG else []) for case in CASES],
)
def test_a_hostile_schema_has_the_outcome_that_the_table_says(case: Case) -> None:
    result = run(case, BYTES, seconds=60.0)  # the outcome, on a machine of any speed
    if case.says:
        assert isinstance(result.error, GuidedError), result.report.relaxed
        assert case.says in str(result.error)
    else:
        assert result.error is None, result.error
        assert {row.keyword for row in result.report.relaxed} == set(case.relaxed.split())


def test_the_table_is_long_and_names_no_case_twice() -> None:
    names = {case.name for case in CASES}
    assert len(names) == len(CASES) >= 60
    assert names > LONG
