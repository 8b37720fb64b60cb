"""The report says what the masks do not keep, wherever it stands in the schema."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.json_schema import Outcome, build
from special_tokens.errors import SchemaError

BACK_REFERENCE = {"type": "string", "pattern": r"^(a+)b\1$"}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (BACK_REFERENCE, ""),
        ({"type": "object", "properties": {"x": BACK_REFERENCE}}, "/properties/x"),
        ({"type": "array", "items": BACK_REFERENCE}, "/items"),
        ({"anyOf": [{"type": "integer"}, BACK_REFERENCE]}, "/anyOf/1"),
        ({"$defs": {"x": BACK_REFERENCE}, "$ref": "#/$defs/x"}, "/$defs/x"),
    ],
    ids=str,
)
@pytest.mark.parametrize("watch", [False, True])
def test_a_pattern_that_is_not_kept_is_reported_at_its_place(schema: Any, pointer: str, watch: bool) -> None:
    rows = [row for row in build(schema, watch=watch).report.rows if row.outcome is Outcome.RELAXED]
    assert [(row.pointer, row.keyword) for row in rows] == [(pointer, "pattern")]
    with pytest.raises(SchemaError, match="back-reference"):
        build(schema, watch=watch, policy="strict")
