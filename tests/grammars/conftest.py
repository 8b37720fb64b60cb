"""Fixtures of this folder: the judge of schemas."""

from __future__ import annotations

import pytest

from tests.judges.schema_laws import byte_judge
from tests.judges.schema_masks import Judge


@pytest.fixture(scope="session")
def judge() -> Judge:
    """Schemas over single bytes, where a text has one cut only."""
    return byte_judge(None)
