"""The report lists what the masks do not enforce, wherever it is in the schema."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.json_schema.build import Outcome, build
from special_tokens.errors import SchemaError

BACK_REFERENCE = {"type": "string", "pattern": r"^(a+)b\1$"}


@pytest.mark.parametrize("watch", [False, True])
def test_what_strict_refuses_is_in_the_report_of_the_error(watch: bool) -> None:
    unique = {"type": "array", "items": {"type": "array"}, "uniqueItems": True}
    schema = {"type": "object", "properties": {"a": unique, "b": BACK_REFERENCE}}
    known = build(schema, watch=watch).report
    assert len(known.relaxed) == 2
    with pytest.raises(SchemaError, match="and 1 more") as caught:
        build(schema, watch=watch, policy="strict")
    report = caught.value.report
    assert {(row.pointer, row.keyword) for row in report.refused} == {(r.pointer, r.keyword) for r in known.relaxed}
    assert not report.relaxed
    assert report.narrowed == known.narrowed
    with pytest.raises(SchemaError) as broken:
        build({"type": "text"}, watch=watch, policy="strict")
    assert broken.value.report is None


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("more", [{}, {"not": {"const": 3}}, {"allOf": [{"minimum": 1}]}], ids=str)
@pytest.mark.parametrize("kind", [{"type": "integer"}, {"type": "string"}, {"type": ["string", "null"]}, {}], ids=str)
def test_a_format_that_is_not_known_has_a_row_however_it_is_built(
    watch: bool, more: dict[str, Any], kind: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": {"a": {**kind, "format": "int32", **more}}}
    rows = [row for row in build(schema, watch=watch).report.rows if row.keyword == "format"]
    assert [(row.pointer, row.outcome) for row in rows] == [("/properties/a", Outcome.EXACT)]
    assert "not enforced" in rows[0].reason


def test_options_of_llguidance_have_a_row() -> None:
    rows = build({"type": "integer", "x-guidance": {"lenient": True}}).report.rows
    assert [row.outcome.value for row in rows if row.keyword == "x-guidance"] == ["exact"]
